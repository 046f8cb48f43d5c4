import { test } from "node:test";
import { memoryPair } from "../../test/kit/engine/memory_pair.ts";
import type { LocalEndpoint, ProvenEndpoint } from "./upstream/endpoint_dial.ts";
import type { Permit } from "./caller/authorize.ts";

test("a Permit and an endpoint are only made by their stages: a look-alike does not type-check", () => {
  const [stream] = memoryPair();
  // @ts-expect-error: only `admit` has the key of a permit.
  const permit: Permit = {};
  // @ts-expect-error: only `dialLocal` has the key.
  const local: LocalEndpoint = { stream, local: "" };
  const members = {
    stream,
    local: "",
    group: {} as ProvenEndpoint["group"],
    protocol: "",
    lease: {} as ProvenEndpoint["lease"],
    fault: () => undefined,
    ended: () => {},
    release: () => {},
  };
  // @ts-expect-error: only an attempt that verified the server has the key.
  const proven: ProvenEndpoint = members;
  void [permit, local, proven];
});
