import { strict as assert } from "node:assert";
import { test } from "node:test";
import { machineNames } from "./guard.ts";

for (
  const [name, files, want] of [
    ["knows the host name", { hostname: "Web-1" }, ["web-1"]],
    ["knows it in short", { hostname: "web-1.prod.example." }, ["web-1.prod.example", "web-1"]],
    ["knows its other names", {
      hostname: "web-1",
      hosts: "# 10.0.0.1 web-1 commented\n127.0.1.1\tweb-1.prod.example web-1 # this one\n" +
        "10.0.0.2 db-1.prod.example db-1\n",
    }, ["web-1", "web-1.prod.example"]],
    ["adds the search domains of resolv.conf", {
      hostname: "web-1",
      resolv: "nameserver 10.0.0.1\nsearch prod.example example.\n",
    }, ["web-1", "web-1.prod.example", "web-1.example"]],
    ["takes a full host name without search domains", {
      hostname: "web-1.prod.example",
      resolv: "search other.example",
    }, ["web-1.prod.example", "web-1"]],
    ["adds no domain to an address", { hostname: "10.0.0.1" }, ["10.0.0.1"]],
    ["is empty without a host name", { hostname: "" }, []],
    ["ignores a malformed host name", { hostname: "a b" }, []],
  ] as const
) {
  test(`machineNames() ${name}`, () => {
    assert.deepEqual(machineNames({ hosts: "", resolv: "", ...files }), want);
  });
}
