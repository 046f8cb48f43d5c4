import assert from "node:assert/strict";
import test from "node:test";
import { formatQuerySni, formatServiceSni } from "./sni.ts";

const DB = {
  service: "db",
  namespace: "default",
  partition: "default",
  datacenter: "dc1",
  trustDomain: "abc.consul",
};

for (
  const [name, got, want] of [
    ["a service", formatServiceSni(DB), "db.default.dc1.internal.abc.consul"],
    [
      "a subset",
      formatServiceSni({ ...DB, subset: "v2" }),
      "v2.db.default.dc1.internal.abc.consul",
    ],
    ["no subset", formatServiceSni({ ...DB, subset: "" }), "db.default.dc1.internal.abc.consul"],
    [
      "another partition",
      formatServiceSni({ ...DB, partition: "east" }),
      "db.default.east.dc1.internal-v1.abc.consul",
    ],
    [
      "a subset in another partition",
      formatServiceSni({ ...DB, subset: "v2", partition: "east" }),
      "v2.db.default.east.dc1.internal-v1.abc.consul",
    ],
    [
      "empty namespace and partition",
      formatServiceSni({ ...DB, namespace: "", partition: "" }),
      "db.default.dc1.internal.abc.consul",
    ],
    [
      "an upper-case trust domain",
      formatServiceSni({ ...DB, trustDomain: "ABC.consul" }),
      "db.default.dc1.internal.abc.consul",
    ],
    [
      "a prepared query",
      formatQuerySni({ query: "geo-db", datacenter: "dc1", trustDomain: "abc.consul" }),
      "geo-db.default.dc1.query.abc.consul",
    ],
  ] as const
) {
  test(`the SNI of ${name}`, () => assert.equal(got, want));
}
