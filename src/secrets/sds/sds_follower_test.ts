import assert from "node:assert/strict";
import test from "node:test";
import { certificateSecret, secretRef } from "../../../test/kit/secrets/secret_peers.ts";
import type { FileEvents } from "../model/plan.ts";
import type { CertificateSpec, Secret, SecretSpec } from "../model/secret.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { SdsFollower } from "./sds_names.ts";

const inline = { kind: "inline", bytes: new Uint8Array() } as const;
const INLINE: CertificateSpec = { type: "certificate", chain: inline, key: inline };
const FILES: CertificateSpec = { ...INLINE, key: { kind: "file", path: "/web.key" } };
const ROOTS: SecretSpec = { type: "validation", systemRoots: true, rules: NO_RULES };

function start() {
  const reported: string[] = [];
  const files: { readonly events: FileEvents; closed: boolean }[] = [];
  let fault = "";
  /** The result of the next load. */
  let slow: Promise<Secret> | undefined;
  const follower = new SdsFollower({
    ref: secretRef("web"),
    events: {
      onSecret: (secret) => void reported.push(secret.type === "certificate" ? secret.serial : ""),
      onRejected: (reason) => void reported.push(reason),
      onRecovered: () => void reported.push("recovered"),
      onUnreachable: () => {},
      onReached: () => {},
      onDenied: () => {},
      onRemoved: () => void reported.push("removed"),
    },
    load: () => {
      if (fault) return Promise.reject(new Error(fault));
      const loaded = slow ?? Promise.resolve(certificateSecret("99"));
      slow = undefined;
      return loaded;
    },
    followFiles: (_spec, _ref, fileEvents) => {
      const watch = {
        events: fileEvents,
        closed: false,
        refresh() {},
        close: () => void (watch.closed = true),
      };
      files.push(watch);
      return watch;
    },
  });
  const overtake = () => {
    const { promise, resolve } = Promise.withResolvers<Secret>();
    slow = promise;
    return resolve;
  };
  return {
    follower,
    reported,
    files,
    overtake,
    failWith: (reason: string) => void (fault = reason),
  };
}

for (
  const [name, spec] of [
    ["cannot be used", INLINE],
    ["is of another type", ROOTS],
  ] as const
) {
  test(`SdsFollower keeps the files of the last good offer when a later one ${name}`, async () => {
    const { follower, reported, files, failWith } = start();
    const offered = follower.offer(FILES, "1");
    const [watch] = files;
    assert.ok(watch);
    watch.events.onSecret(certificateSecret("01"), "");
    assert.equal(await offered, undefined);
    failWith("it is torn");
    const reason = await follower.offer(spec, "2");
    assert.ok(reason);
    assert.deepEqual(reported.splice(0), ["01", `Cannot use "web": ${reason}`]);
    assert.equal(watch.closed, false);
    watch.events.onSecret(certificateSecret("02"), "");
    assert.deepEqual(reported.splice(0), ["02"]);
    // The server gets a NACK when it sends the same resource again.
    assert.equal(follower.hasFault, true);
    failWith("");
    assert.equal(await follower.offer(INLINE, "3"), undefined);
    assert.deepEqual(reported.splice(0), ["99"]);
    assert.equal(watch.closed, true);
    assert.equal(follower.hasFault, false);
    watch.events.onSecret(certificateSecret("03"), "");
    watch.events.onRejected("gone");
    assert.deepEqual(reported, []);
  });
}

test("SdsFollower ignores events of files after another offer, a removal or its end", async () => {
  const { follower, reported, files } = start();
  const first = follower.offer(FILES, "1");
  const second = follower.offer(FILES, "2");
  assert.equal(await first, undefined);
  const [before, after] = files;
  before?.events.onSecret(certificateSecret("01"), "");
  assert.deepEqual(reported, []);
  assert.equal(before?.closed, true);
  after?.events.onSecret(certificateSecret("02"), "");
  assert.equal(await second, undefined);
  follower.remove();
  after?.events.onSecret(certificateSecret("03"), "");
  assert.deepEqual(reported.splice(0), ["02", "removed"]);
  const third = follower.offer(FILES, "3");
  follower.close();
  assert.equal(await third, undefined);
  files[2]?.events.onSecret(certificateSecret("04"), "");
  assert.deepEqual(reported, []);
  assert.deepEqual(files.map(({ closed }) => closed), [true, true, true]);
});

test("SdsFollower does not follow files that are offered after its end", async () => {
  const { follower, files } = start();
  follower.close();
  assert.equal(await follower.offer(FILES, "1"), undefined);
  assert.deepEqual(files, []);
});

test("SdsFollower does not report an offer that a later one replaced", async () => {
  const { follower, reported, overtake } = start();
  const late = overtake();
  const first = follower.offer(INLINE, "1");
  assert.equal(await follower.offer(INLINE, "2"), undefined);
  late(certificateSecret("late"));
  assert.equal(await first, undefined);
  assert.deepEqual(reported, ["99"]);
});
