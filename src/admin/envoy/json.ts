/** Values as Envoy's admin pages write them. @module */

import type { Address, BindAddress } from "../../base/mod.ts";

export type Json = Readonly<Record<string, unknown>>;

export function addressJson(address: Address | BindAddress): Json {
  if (address.kind === "unix") return { pipe: { path: address.path } };
  return { socket_address: { address: address.host, port_value: address.port } };
}

/** A time span as protobuf's JSON has it: `2.500s`. */
export function durationJson(ms: number): string {
  const whole = Math.floor(ms / 1_000);
  const rest = ms % 1_000;
  return rest === 0 ? `${whole}s` : `${whole}.${String(rest).padStart(3, "0")}s`;
}
