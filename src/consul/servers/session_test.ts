import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "../../../test/kit/clock/clock.ts";
import { ProxyError } from "../../base/mod.ts";
import { A, B, C, outcome, rootsOf, SessionRig } from "../../../test/kit/consul/session_rig.ts";
import { GET_FEATURES, SIGN, WATCH_ROOTS } from "./methods.ts";
import type { ServersSession } from "./session.ts";
import type { Server } from "./types.ts";

const sign = (session: ServersSession, timeoutMs = 1_000) =>
  outcome(session.call(SIGN, "csr", { timeoutMs }));

test("Servers.call() sends the token to the server in use, and returns its answer", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.answer(SIGN.path, (call) => {
    call.send("Signed", { cert_pem: `for ${call.request("SignRequest").csr}` });
    call.end(0);
  });
  const session = rig.start();
  const answer = sign(session);
  await rig.run(10);
  assert.equal(await answer, '"for csr"');
  assert.deepEqual(rig.moves, [A]);
  assert.deepEqual(session.status, {
    server: A,
    sinceMs: rig.clock.now() - 10,
    known: [A],
    moves: 0,
    lastFailure: "",
  });
  assert.deepEqual(one.calls.map(({ token }) => token), ["t1", "t1", "t1"]);
  assert.equal(one.accepted, 1);
  assert.equal(rig.value("server_connected"), 1);
});

for (
  const [code, text, wanted] of [
    [
      7,
      "Permission denied",
      /^agent_forbidden: Cannot have the certificate signed: .*10\.0\.0\.1.*PERMISSION_DENIED/,
    ],
    [
      7,
      "Permission denied: anonymous token lacks permission 'service:read' on \"db\"",
      /^agent_forbidden: .* \(give a token with -token-file or CONSUL_HTTP_TOKEN, or a login with /,
    ],
    [16, "ACL not found", /^agent_forbidden: .*the servers do not know the token/],
    [8, "Rate limit reached", /^agent_overloaded: /],
    [5, "nothing", /^agent_not_found: /],
    [14, "no leader", /^agent_unreachable: /],
    [13, "failed to\nsign", /^agent_failed: .*failed to sign/],
    [12, "unknown", /^agent_failed: .*-grpc-port/],
    [0, "", /^agent_reply_invalid: .*it is empty/],
  ] as const
) {
  test(`Servers.call() maps gRPC status ${code} to a code, and stays with the server`, async () => {
    using rig = new SessionRig();
    const one = rig.servers.add(A);
    one.answer(SIGN.path, (call) => call.end(code, text));
    const session = rig.start();
    const answer = sign(session);
    await rig.run(10);
    assert.match(await answer, wanted);
    assert.equal(session.current?.host, A);
    assert.deepEqual(rig.token.rejections, code === 16 ? ["t1"] : []);
    const probes = one.calls.filter(({ path }) => path === GET_FEATURES.path).length;
    assert.equal(probes, code === 14 ? 2 : 1, "UNAVAILABLE causes a probe");
    const results = rig.stats.samples().filter(({ labels }) =>
      labels["resource"] === SIGN.resource
    );
    assert.match(await answer, new RegExp(`^${results.map(({ labels }) => labels["result"])}: `));
  });
}

test("Servers.call() removes the token from a quoted status", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  rig.token.value = "dd0661f6-75d2-8492";
  one.answer(SIGN.path, (call) => call.end(13, `no ${rig.token.value} here`));
  const session = rig.start();
  const answer = sign(session);
  await rig.run(10);
  assert.match(await answer, /^agent_failed: .*no \(not shown\) here/);
});

test("Servers.call() refuses an unreadable answer, and a second answer", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.answer(SIGN.path, (call) => call.sendBytes(new Uint8Array([0x0a, 0xff])));
  const session = rig.start();
  const first = sign(session);
  await rig.run(10);
  assert.match(await first, /^agent_reply_invalid: .*cut short/);
  one.answer(SIGN.path, (call) => {
    call.send("Signed", { cert_pem: "1" });
    call.send("Signed", { cert_pem: "2" });
    call.end(0);
  });
  const second = sign(session);
  await rig.run(10);
  assert.match(await second, /^agent_failed: .*more than one answer/);
});

test("Servers.call() waits for a server until its timeout, and fails when the session closes", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.state = "down";
  const session = rig.start();
  const late = sign(session, 100);
  await rig.run(100);
  assert.match(
    await late,
    /^agent_unreachable: .*no Consul server is in use: 10\.0\.0\.1 port 8502 \(-grpc-port, -tls-disabled\): /,
  );
  assert.deepEqual(rig.messages("warn"), [
    "no consul server can be used",
  ]);
  const patient = sign(session, 60_000);
  one.answer(SIGN.path, (call) => call.send("Signed", { cert_pem: "x" }));
  one.state = "up";
  await rig.run(11_000);
  assert.deepEqual(rig.moves, [A]);
  session.close();
  await settle();
  assert.match(await patient, /^closed: /);
  assert.match(await sign(session), /^closed: /);
});

test("Servers.call() fails as closed when it is aborted", async () => {
  using rig = new SessionRig();
  rig.servers.add(A);
  const session = rig.start();
  await rig.run(10);
  const wanted = new AbortController();
  const answer = outcome(session.call(SIGN, "csr", { timeoutMs: 1_000, signal: wanted.signal }));
  await settle();
  wanted.abort();
  assert.match(await answer, /^closed: /);
});

test("Servers finds a server within ten seconds after it is back, with few dials before", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const session = rig.start();
  await rig.run(70_000);
  one.kill();
  await rig.run(120_000);
  assert.equal(rig.value("server_connected"), 0);
  const tried = rig.servers.dialled.length;
  assert.ok(tried < 30, `${tried} times in two minutes`);
  one.state = "up";
  await rig.run(10_000);
  assert.equal(session.current?.host, A);
  assert.equal(rig.value("server_connected"), 1);
  assert.equal(
    rig.messages("warn").length,
    3,
    "the lines about plain text, the lost server, and no server",
  );
});

test("Servers stays with a server that left the list, and ignores an empty list", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const two = rig.servers.add(B);
  one.knows(A, B, C);
  const session = rig.start();
  await rig.run(10);
  assert.deepEqual(session.status.known, [A, B, C]);
  assert.equal(rig.value("servers_known"), 3);
  one.knows(B);
  await rig.run(100);
  one.knows();
  await rig.run(100);
  assert.deepEqual([session.current?.host, session.status.known], [A, [B]]);
  one.kill();
  await rig.run(300);
  assert.equal(session.current?.host, B);
  // Addresses are looked up again when every known server has failed.
  one.state = "up";
  two.kill();
  await rig.run(10_000);
  assert.equal(session.current?.host, A);
});

test("Servers leaves a server that refuses a stream for load, not one that refuses a call", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const two = rig.servers.add(B);
  one.knows(A, B);
  one.answer(SIGN.path, (call) => call.end(8, "Rate limit reached, try again later"));
  one.answer(WATCH_ROOTS.path, (call) => call.end(8, "rate limit exceeded"));
  two.answer(WATCH_ROOTS.path, rootsOf(B));
  const session = rig.start();
  const answer = sign(session);
  await rig.run(10);
  assert.match(await answer, /^agent_overloaded/);
  assert.equal(session.current?.host, A);
  rig.follow(session);
  await rig.run(300);
  assert.deepEqual([session.current?.host, rig.roots], [B, [B]]);
  assert.deepEqual(rig.errors.map(({ code }) => code), ["agent_overloaded"]);
});

test("Servers is down when every server fails at the start, not when one in use is lost", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.state = "down";
  const session = rig.start({ places: { kind: "names", names: [A, B] } });
  const downs: string[] = [];
  session.onDown(() => downs.push(session.status.lastFailure));
  assert.equal(session.isDown, false, "no server was dialled yet");
  await rig.run(20);
  assert.deepEqual([session.isDown, downs.length], [true, 1]);
  one.state = "up";
  await rig.run(2_000);
  assert.deepEqual([session.current?.host, session.isDown], [A, false]);
  one.kill();
  await rig.run(60_000);
  assert.deepEqual([session.current, session.isDown, downs.length], [undefined, false, 1]);
});

test("Servers.leave() moves once for each server", async () => {
  using rig = new SessionRig();
  rig.servers.add(A).knows(A, B);
  rig.servers.add(B).knows(A, B);
  const session = rig.start();
  await rig.run(10);
  const server = session.current as Server;
  session.leave(server, "HTTP says 429");
  session.leave(server, "HTTP says 429");
  await rig.run(300);
  session.leave(server, "late");
  await rig.run(300);
  assert.deepEqual(rig.moves, [A, B]);
  assert.equal(session.status.lastFailure, "10.0.0.1: HTTP says 429");
  assert.deepEqual(rig.events, ["Consul server changed from 10.0.0.1 to 10.0.0.2: HTTP says 429"]);
  await rig.run(5_000);
  assert.deepEqual([A, B].map((host) => rig.servers.get(host).connections), [0, 1]);
});

test("Servers.leave() of the only server returns to it with growing pauses", async () => {
  using rig = new SessionRig();
  rig.servers.add(A);
  const session = rig.start();
  session.onMove((server) => session.leave(server, "it is no good"));
  await rig.run(60_000);
  const { length } = rig.servers.dialled;
  assert.ok(length > 5 && length < 20, `${length} times in a minute`);
});

test("Servers probes a server after a call timed out, and leaves it where the probe fails", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.knows(A, B);
  rig.servers.add(B);
  const session = rig.start();
  const slow = sign(session);
  await rig.run(2_000);
  assert.match(await slow, /^agent_unreachable: .*no answer within \d+ ms/);
  assert.equal(session.current?.host, A, "it answered the probe");
  one.answer(GET_FEATURES.path, () => {});
  const dead = Promise.all([sign(session), sign(session), sign(session, 2_000)]);
  await rig.run(6_300);
  for (const message of await dead) assert.match(message, /^agent_unreachable/);
  assert.equal(one.calls.filter(({ path }) => path === GET_FEATURES.path).length, 3);
  assert.equal(session.current?.host, B);
});

test("Servers does not use a server that drains with its first answer", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  one.answer(GET_FEATURES.path, (call) => {
    call.send("SupportedFeatures", {});
    call.end(0);
    one.drain();
  });
  rig.servers.add(B);
  rig.start({ places: { kind: "names", names: [A, B] } });
  await rig.run(1_000);
  assert.deepEqual(rig.moves, [B]);
});

test("Servers looks names up again every five seconds at most", async () => {
  using rig = new SessionRig();
  rig.addresses.set("consul.example", [A]);
  const session = rig.start({ places: { kind: "names", names: ["consul.example"] } });
  await rig.run(60_000);
  assert.ok(rig.lookedUp > 5 && rig.lookedUp <= 13, `${rig.lookedUp} times in a minute`);
  rig.servers.add(B);
  rig.addresses.set("consul.example", [B]);
  await rig.run(10_000);
  assert.equal(session.current?.host, B);
});

test("Servers finds a server once its name has an address", async () => {
  using rig = new SessionRig();
  rig.servers.add(A);
  const session = rig.start({ places: { kind: "names", names: ["consul.example"] } });
  await rig.run(30_000);
  assert.match(session.status.lastFailure, /consul\.example has no address/);
  assert.ok(rig.lookedUp > 3 && rig.lookedUp < 15, `${rig.lookedUp} times in half a minute`);
  rig.addresses.set("consul.example", [A]);
  await rig.run(10_000);
  assert.deepEqual(rig.moves, [A]);
});

test("Servers probes once a minute where servers are not followed", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const two = rig.servers.add(B);
  const session = rig.start({
    watchServers: false,
    places: { kind: "names", names: [A, B] },
  });
  await rig.run(200_000);
  const [used, other] = session.current?.host === A ? [one, two] : [two, one];
  assert.equal(used.calls.length, 4);
  used.answer(GET_FEATURES.path, (call) => call.end(8, "rate limit exceeded"));
  await rig.run(67_000);
  assert.equal(session.current?.host, other.host);
  assert.ok([...one.calls, ...two.calls].every(({ path }) => path === GET_FEATURES.path));
});

test("Servers uses a server that rejects the token, and reports the rejection", async () => {
  using rig = new SessionRig();
  rig.servers.add(A).answer(GET_FEATURES.path, (call) => call.end(16, "ACL not found"));
  const session = rig.start();
  await rig.run(10);
  assert.equal(session.current?.host, A);
  assert.deepEqual(rig.token.rejections, ["t1"]);
});

test("Servers holds calls and streams back until the login's token is there", async () => {
  using rig = new SessionRig();
  const { promise, reject } = Promise.withResolvers<void>();
  rig.token.value = "";
  rig.token.coming = promise;
  const one = rig.servers.add(A);
  one.answer(GET_FEATURES.path, (call) => call.end(16, "An ACL token must be provided"));
  one.answer(SIGN.path, (call) => {
    call.send("Signed", { cert_pem: call.token });
    call.end(0);
  });
  one.answer(WATCH_ROOTS.path, rootsOf(A));
  const session = rig.start();
  rig.follow(session);
  const late = sign(session, 500);
  const patient = sign(session, 5_000);
  await rig.run(1_000);
  assert.match(await late, /^agent_unreachable: .*there is no token yet/);
  assert.deepEqual([one.calls.map(({ path }) => path), rig.errors], [[GET_FEATURES.path], []]);
  rig.token.coming = undefined;
  rig.token.change("t2");
  await rig.run(500);
  assert.deepEqual([await patient, rig.roots], ['"t2"', [A]]);

  rig.token.coming = promise;
  const refused = sign(session);
  reject(new ProxyError("agent_forbidden", "Cannot log in: no rule matches"));
  assert.equal(await refused, "agent_forbidden: Cannot log in: no rule matches");
});

test("Servers.close() leaves no stream and no timer", async () => {
  using rig = new SessionRig();
  const one = rig.servers.add(A);
  const session = rig.start();
  rig.follow(session);
  const waiting = sign(session);
  await rig.run(10);
  session.close();
  assert.equal(session.current, undefined);
  assert.match(await waiting, /^closed/);
  await rig.run(3_600_000);
  assert.deepEqual([one.open(), rig.clock.pending], [[], 0]);
});
