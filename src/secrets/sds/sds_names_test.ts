import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { certificateSecret, secretRef } from "../../../test/kit/secrets/secret_peers.ts";
import { Stats } from "../../base/mod.ts";
import { SecretNames } from "./sds_names.ts";
import { SdsStats } from "./sds_reports.ts";

/** Followers of one name. `faults`: the faults of the next loads; "" for none. */
function setUp() {
  const faults: string[] = [];
  const names = new SecretNames({
    clock: new FakeClock(),
    stats: new SdsStats(new Stats(), "sds test"),
    load() {
      const fault = faults.shift();
      return fault ? Promise.reject(new Error(fault)) : Promise.resolve(certificateSecret("01"));
    },
    followFiles: undefined,
    onChange() {},
  });
  let read = 0;
  return {
    names,
    faults,
    follow() {
      const reports: string[] = [];
      names.watch(secretRef("web"), {
        onSecret: (_secret, version) => void reports.push(version),
        onRejected: (reason) => void reports.push(reason),
        onRecovered: () => void reports.push("recovered"),
        onUnreachable: () => {},
        onReached: () => {},
        onDenied: () => {},
        onRemoved: () => void reports.push("removed"),
      });
      return reports;
    },
    offer: (version: string) =>
      names.accept({
        name: "web",
        version,
        digest: "same",
        read() {
          read++;
          const text = { inline_string: "PEM" };
          return { name: "web", tls_certificate: { certificate_chain: text, private_key: text } };
        },
      }),
    reads: () => read,
  };
}

test("SecretNames offers unchanged bytes again only to followers that could not use them", async () => {
  const { follow, offer, reads, faults } = setUp();
  const [good, early] = [follow(), follow()];
  faults.push("", "not valid yet");
  assert.equal(await offer("1"), "not valid yet");
  assert.equal(await offer("2"), undefined);
  assert.deepEqual([good, early], [["1"], ['Cannot use "web": not valid yet', "2"]]);
  assert.equal(reads(), 1);
});

test("SecretNames offers the same bytes again after a removal", async () => {
  const { names, follow, offer, reads } = setUp();
  const reports = follow();
  await offer("1");
  names.removed("web");
  assert.equal(await offer("1"), undefined);
  assert.deepEqual(reports, ["1", "removed", "1"]);
  assert.equal(reads(), 2);
});
