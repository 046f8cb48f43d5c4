/** Sockets and TLS, the same on every runtime. @module */
import { bunEngine } from "./bun/bun_engine.ts";
import { nodeEngine } from "./node/node_engine.ts";
import type { Engine } from "./port.ts";

export * from "./accept_gate.ts";
export * from "./datagrams.ts";
export * from "./error_words.ts";
export * from "./inherited_sockets.ts";
export {
  closeDescriptor,
  DESCRIPTORS_PER_MESSAGE,
  duplicate,
  listeningAddress,
} from "./linux/descriptors.ts";
export { uptimeMs } from "./linux/c_library.ts";
export * from "./linux/handover_link.ts";
export * from "./linux/server_socket.ts";
export * from "./linux/standard_stream.ts";
export * from "./port.ts";
export * from "./relay.ts";

/** Whether a thread that runs without a pause can be ended from outside. */
export function endsBusyThreads(): boolean {
  return bunEngine() !== undefined;
}

/** The engine of the runtime this process runs on. */
export function runtimeEngine(): Engine {
  return bunEngine() ?? nodeEngine();
}
