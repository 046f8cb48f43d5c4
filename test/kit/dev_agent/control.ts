/**
 * What an operator does over the HTTP interface, done to a world directly.
 *
 * @module
 */

import { readEntryBody } from "../../../src/dev/entries/config_entries.ts";
import { putIntention } from "../../../src/dev/entries/intentions.ts";
import type { JsonObject } from "../../../src/dev/json.ts";
import { decodeBody } from "../../../src/dev/shapes.ts";
import type { World } from "../../../src/dev/world.ts";

/** `body`: that of `PUT /v1/agent/service/register`. */
export function registerService(world: Pick<World, "services">, body: unknown): void {
  world.services.register(decodeBody(JSON.stringify(body), "registration"));
}

/** `body`: that of `PUT /v1/config`. */
export function writeEntry(world: World, body: unknown): void {
  world.config.put(readEntryBody(JSON.stringify(body)));
}

/** `rule`: a source of an intentions entry without its name. */
export function setIntention(
  world: World,
  source: string,
  destination: string,
  rule: JsonObject,
): void {
  putIntention(world.config, destination, { Name: source, ...rule });
}
