/** The changes that an operator makes over the HTTP interface, made to a world directly. @module */

import { putIntention } from "../../../src/dev/entries/intentions.ts";
import type { JsonObject } from "../../../src/dev/json.ts";
import { decodeBody } from "../../../src/dev/shapes.ts";
import type { World } from "../../../src/dev/world.ts";

/** `body`: that of `PUT /v1/agent/service/register`. */
export function registerService(world: Pick<World, "services">, body: unknown): void {
  world.services.register(decodeBody(JSON.stringify(body), "registration"));
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
