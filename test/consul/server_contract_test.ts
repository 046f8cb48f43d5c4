/**
 * The contract of servers against a real Consul: what keeps the embedded servers honest.
 *
 * @module
 */

import { test } from "node:test";
import { serverAclContract } from "../conformance/servers/acl.ts";
import { serverContract } from "../conformance/servers/contract.ts";
import { loginContract } from "../conformance/servers/login.ts";
import type { ServerUnderTest } from "../conformance/servers/grpc_client.ts";
import { type Consul, startConsul } from "../kit/mesh/consul.ts";

function underTest({ host, address, grpcAddress, managementToken }: Consul): ServerUnderTest {
  const portOf = (text: string) => Number(text.slice(text.lastIndexOf(":") + 1));
  return { host, httpPort: portOf(address), grpcPort: portOf(grpcAddress), managementToken };
}

const open = await startConsul();
serverContract(underTest(open));

const guarded = await startConsul({ acl: true });
serverAclContract(underTest(guarded));
loginContract(underTest(guarded));

// A root-level `after` runs beside the last test on Deno; a last test runs after it.
test("the servers end", async () => {
  await open[Symbol.asyncDispose]();
  await guarded[Symbol.asyncDispose]();
});
