/**
 * The answers of a Consul server to clients that have no agent, as tests that every server must pass:
 * run against the embedded ones and against a real one.
 *
 * @module
 */

import type { ServerUnderTest } from "./grpc_client.ts";
import { grpcReadContract } from "./grpc_reads.ts";
import { methodContract } from "./methods.ts";
import { registrationContract } from "./registration.ts";
import { sessionContract } from "./sessions.ts";
import { signingContract } from "./signing.ts";

/** For a server without ACLs, datacenter `dc1`. */
export function serverContract(server: ServerUnderTest): void {
  registrationContract(server);
  sessionContract(server);
  signingContract(server);
  methodContract(server);
  // Last: it rotates the roots.
  grpcReadContract(server);
}
