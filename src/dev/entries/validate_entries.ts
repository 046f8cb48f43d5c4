/**
 * Whether config entries fit together: every chain compiles, and permissions stand only where the
 * destination speaks HTTP. Asked before an entry is written or removed.
 *
 * @module
 */

import { compileChain, NO_OVERRIDES, protocolOf } from "./chain_compiler.ts";
import type { FindEntry } from "./config_entries.ts";
import { permissionsOf, sourcesOf } from "./intention_entry.ts";
import { providersIn } from "./jwt_provider.ts";
import { multiError } from "./multi_error.ts";
import { Refusal } from "../http/refusal.ts";

export function validateEntries(
  find: FindEntry,
  names: ReadonlySet<string>,
  datacenter: string,
): void {
  for (const service of names) {
    compileChain({
      service,
      datacenter,
      trustDomain: "trustdomain.consul",
      overrides: NO_OVERRIDES,
      find,
      virtualIp: undefined,
    });
    const intentions = find("service-intentions", service);
    if (!intentions) continue;
    const unknown = providersIn(intentions)
      .find((provider) => !find("jwt-provider", provider));
    if (unknown !== undefined) {
      const fault = `Referenced JWT Provider does not exist. Provider Name: ${unknown}`;
      throw new Refusal(500, multiError([fault]));
    }
    const protocol = protocolOf(service, find);
    const layered = sourcesOf(intentions).some((source) => permissionsOf(source).length > 0);
    if (layered && !["http", "http2", "grpc"].includes(protocol)) {
      throw new Refusal(
        500,
        `service "${service}" has protocol "${protocol}", which is incompatible with L7 intentions permissions`,
      );
    }
  }
}
