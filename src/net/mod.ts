/** Sockets and TLS, the same on every runtime. @module */
import { bunEngine } from "./bun.ts";
import { nodeEngine } from "./node.ts";
import type { Engine } from "./port.ts";

export * from "./accept_gate.ts";
export * from "./bun_datagram.ts";
export * from "./descriptors.ts";
export * from "./port.ts";
export * from "./relay.ts";
export * from "./standard_error.ts";

/** The engine of the runtime this process runs on. */
export function runtimeEngine(): Engine {
  return bunEngine() ?? nodeEngine();
}
