import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { certificateSecret, secretRef } from "../../../test/kit/secrets/secret_peers.ts";
import { Stats } from "../../base/mod.ts";
import { SdsFollower, SecretNames } from "./sds_names.ts";
import { SdsStats } from "./sds_reports.ts";

function setUp() {
  const stats = new SdsStats(new Stats(), "sds test");
  const names = new SecretNames({ clock: new FakeClock(), stats, allowFiles: false });
  const { followers } = names.add("web");
  let read = 0;
  return {
    names,
    follow() {
      const it = { told: [] as string[], fault: "" };
      followers.add(
        new SdsFollower({
          ref: secretRef("web"),
          events: {
            onSecret: (_secret, version) => void it.told.push(version),
            onRejected: (reason) => void it.told.push(reason),
            onRecovered: () => void it.told.push("recovered"),
            onUnreachable: () => {},
            onReached: () => {},
            onDenied: () => {},
            onRemoved: () => void it.told.push("removed"),
          },
          load: () =>
            it.fault
              ? Promise.reject(new Error(it.fault))
              : Promise.resolve(certificateSecret("01")),
          followFiles: undefined,
        }),
      );
      return it;
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

test("SecretNames offers the same bytes again to those only who could not use them", async () => {
  const { follow, offer, reads } = setUp();
  const [good, early] = [follow(), follow()];
  early.fault = "not valid yet";
  assert.equal(await offer("1"), "not valid yet");
  early.fault = "";
  assert.equal(await offer("2"), undefined);
  assert.deepEqual([good.told, early.told], [["1"], ['Cannot use "web": not valid yet', "2"]]);
  assert.equal(reads(), 1);
});

test("SecretNames offers the same bytes again after they were taken back", async () => {
  const { names, follow, offer, reads } = setUp();
  const { told } = follow();
  await offer("1");
  names.removed("web");
  assert.equal(await offer("1"), undefined);
  assert.deepEqual(told, ["1", "removed", "1"]);
  assert.equal(reads(), 2);
});
