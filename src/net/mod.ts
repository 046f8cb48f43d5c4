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
export {
  DISTRUSTS_OUR_CA,
  MAY_WANT_CERTIFICATE,
  REFUSES_CERTIFICATE,
  SPEAKS_NO_TLS,
  tlsWords,
  WANTS_CERTIFICATE,
} from "./tls_words.ts";
export * from "./udp_sender.ts";

/** The engine of the runtime this process runs on. */
export function runtimeEngine(): Engine {
  return bunEngine() ?? nodeEngine();
}
