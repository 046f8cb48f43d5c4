/** Sockets and TLS, the same on every runtime. @module */
import { bunEngine } from "./bun/bun_engine.ts";
import { nodeEngine } from "./node/node_engine.ts";
import type { Engine } from "./port.ts";

export * from "./accept_gate.ts";
export * from "./linux/descriptors.ts";
export * from "./linux/standard_stream.ts";
export * from "./linux/unix_datagram.ts";
export * from "./port.ts";
export * from "./relay.ts";
export { SPEAKS_NO_TLS } from "./tls_words.ts";

/** The engine of the runtime this process runs on. */
export function runtimeEngine(): Engine {
  return bunEngine() ?? nodeEngine();
}
