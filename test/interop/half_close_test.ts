import test from "node:test";
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHash } from "node:crypto";
import { peer } from "../../scripts/peers.ts";
import { startConsul } from "../kit/mesh/consul.ts";
import { pattern } from "../kit/wire/echo.ts";
import { startMeshPair } from "../kit/mesh/mesh_pair.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually, Process, runToEnd } from "../kit/process/process.ts";

const SIZE = 20_000_000;

// socat's server answers only once it has seen the end of the request, so a pair that closes both
// ways on the first end gives no answer at all.
test("a request that ends before its answer begins is answered whole", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-half-close-"));
  try {
    const sent = Buffer.concat(Array.from({ length: SIZE / 20_000 }, (_, i) => padded(i)));
    await writeFile(join(directory, "sent"), sent);
    await using server = await startConsul({ acl: true });
    const port = await freePort(server.host);
    await using _app = new Process(peer("socat"), [
      ...["-t", "60", `TCP-LISTEN:${port},bind=${server.host},reuseaddr,fork`],
      // Reads to the end, then prints the digest and the bytes again.
      `SYSTEM:f=$(mktemp); cat > $f; sha256sum < $f; cat $f; rm $f`,
    ]);
    await using pair = await startMeshPair(server, {
      app: { host: server.host, port },
    });
    const call = () =>
      runToEnd("sh", [
        "-c",
        `${peer("socat")} -t 60 - TCP:${pair.upstream.host}:${pair.upstream.port} ` +
        `< ${directory}/sent > ${directory}/received`,
      ], { timeoutMs: 120_000 });
    await eventually("an answer", async () => {
      await call();
      return (await readFile(join(directory, "received"))).length > 0;
    }, { timeoutMs: 60_000 });
    const received = await readFile(join(directory, "received"));
    const digest = createHash("sha256").update(sent).digest("hex");
    assert.equal(received.subarray(0, 64).toString(), digest, "what the server received");
    const back = received.subarray(received.indexOf(10) + 1);
    assert.equal(createHash("sha256").update(back).digest("hex"), digest, "what came back");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

// The other direction: the server ends first and goes on reading the client's bytes.
test("an answer that ends before the request does lets the request go on", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-half-close-"));
  try {
    await using server = await startConsul({ acl: true });
    const port = await freePort(server.host);
    const kept = join(directory, "kept");
    await using _app = new Process(peer("socat"), [
      ...["-t", "60", `TCP-LISTEN:${port},bind=${server.host},reuseaddr,fork`],
      `SYSTEM:echo early; exec 1>&-; cat >> ${kept}`,
    ]);
    await using pair = await startMeshPair(server, {
      app: { host: server.host, port },
    });
    await eventually("the late bytes arrive", async () => {
      const output = await runToEnd("sh", [
        "-c",
        `(sleep 1; echo late) | ${peer("socat")} -t 60 - ` +
        `TCP:${pair.upstream.host}:${pair.upstream.port}`,
      ], { timeoutMs: 120_000 });
      return output === "early\n" && (await readFile(kept, "utf8")).endsWith("late\n");
    }, { timeoutMs: 60_000 });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

function padded(seed: number): Uint8Array {
  const bytes = new Uint8Array(20_000);
  bytes.set(pattern(seed, 20_000));
  return bytes;
}
