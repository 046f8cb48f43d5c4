import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { type Clock, systemClock } from "../../base/mod.ts";
import { findServers, readServerPlaces, systemLookup } from "./server_addresses.ts";

/** The longest DNS name, with the longest labels. */
const LONGEST = `${`${"a".repeat(63)}.`.repeat(3)}${"b".repeat(61)}`;
const MANY = Array.from({ length: 101 }, (_, at) => `10.0.0.${at}`);

for (
  const [text, names] of [
    ["10.0.0.1", ["10.0.0.1"]],
    ["10.0.0.1, [2001:DB8::0:1],::1,10.0.0.1", ["10.0.0.1", "2001:db8::1", "::1"]],
    ["Consul.Example.,servers", ["consul.example", "servers"]],
    ["_consul.svc-1.cluster.local", ["_consul.svc-1.cluster.local"]],
    [LONGEST, [LONGEST]],
    [MANY.slice(0, 100).join(), MANY.slice(0, 100)],
  ] as const
) {
  test(`readServerPlaces() reads ${text.slice(0, 40)}`, () =>
    assert.deepEqual(readServerPlaces(text), { kind: "names", names }));
}

test("readServerPlaces() reads a command, without a shell's rules", () => {
  assert.deepEqual(readServerPlaces("exec=/bin/discover  -q 'tag a' "), {
    kind: "exec",
    command: ["/bin/discover", "-q", "'tag", "a'"],
  });
});

for (
  const [text, wanted] of [
    ["", /an address is empty/],
    ["10.0.0.1,", /an address is empty/],
    ["exec=  ", /no command follows exec=/],
    ["10.0.0.1:8502", /it has a port; ports are given with -grpc-port and -http-port/],
    ["[::1]:8502", /it has a port/],
    ["consul.example:8502", /it has a port/],
    ["https://consul.example", /it is a URL; write the host alone/],
    ["10.0.0.256", /which is no IPv4 address/],
    ["127.1", /which is no IPv4 address/],
    ["::g", /which is no IPv6 address/],
    ["consul example", /is neither an IP address nor a DNS name/],
    ["-consul", /is neither/],
    ["a..b", /is neither/],
    [`${"a".repeat(64)}.b`, /is neither/],
    ["a\x1b[2J", /is neither/],
    [`${"a".repeat(50_000)}!`, /is neither/],
    [`${LONGEST}b`, /is neither/],
    [MANY.join(), /more than 100 addresses/],
  ] as const
) {
  test(`readServerPlaces() refuses ${JSON.stringify(text.slice(0, 40))}`, () =>
    assert.throws(() => readServerPlaces(text), (error: Error) => {
      assert.match(error.message, /^Cannot use -servers "/);
      assert.match(error.message, wanted);
      // deno-lint-ignore no-control-regex -- messages must not contain control characters
      assert.doesNotMatch(error.message, /[\x00-\x1f]/);
      assert.ok(error.message.length < 1_000);
      return true;
    }));
}

const find = (
  text: string,
  addresses: Record<string, readonly string[]> = {},
  clock: Clock = systemClock,
) =>
  findServers(readServerPlaces(text), {
    clock,
    lookup: (name) => Promise.resolve(addresses[name] ?? Promise.reject(new Error("no such name"))),
  });

test("findServers() returns each address of every name once, and skips unknown names", async () => {
  assert.deepEqual(
    await find("10.0.0.1,a,b", { a: ["10.0.0.2", "10.0.0.1", "fe80::1%eth0", "x"] }),
    ["10.0.0.1", "10.0.0.2"],
  );
});

test("findServers() returns a hundred addresses at most", async () => {
  assert.deepEqual(await find("a", { a: MANY }), MANY.slice(0, 100));
});

test("findServers() names the unknown names", async () => {
  const wanted = {
    code: "agent_unreachable",
    message: /^Cannot find Consul's servers: b: no such/,
  };
  await assert.rejects(find("b"), wanted);
  await assert.rejects(find("a", { a: [] }), /their names have no address/);
});

test("findServers() times out while a name is looked up", async () => {
  const clock = new FakeClock();
  const lookup = () => new Promise<never>(() => {});
  const found = findServers(readServerPlaces("a"), { clock, lookup });
  found.catch(() => {});
  await clock.advance(5_000);
  await assert.rejects(found, /a: no answer in time/);
});

test("systemLookup() returns this machine's addresses for a name", async () => {
  const addresses = await systemLookup("localhost");
  assert.ok(addresses.includes("127.0.0.1") || addresses.includes("::1"), String(addresses));
});

/** An executable script with this text. */
async function scripted(text: string): Promise<AsyncDisposable & { readonly exec: string }> {
  const directory = await mkdtemp(join(tmpdir(), "postern-places-"));
  const path = join(directory, "discover");
  await writeFile(path, `#!/bin/sh\n${text}\n`);
  await chmod(path, 0o755);
  return {
    exec: `exec=${path}`,
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

test("findServers() returns the addresses that a command prints", async () => {
  await using program = await scripted('echo "10.0.0.1 [::1]"; echo; echo $1');
  const clock = new FakeClock();
  const found = await find(`${program.exec} 10.0.0.3`, {}, clock);
  assert.deepEqual(found, ["10.0.0.1", "::1", "10.0.0.3"]);
  assert.equal(clock.pending, 0);
  const shell = `${program.exec} $(id)`;
  await assert.rejects(find(shell), /printed "\$\(id\)", which is no IP address/);
});

for (
  const [name, text, wanted] of [
    ["fails", "echo why >&2; echo more >&2; exit 3", /discover ended with 3: "why"$/],
    ["fails without output", "exit 4", /discover ended with 4$/],
    [
      "prints control characters",
      "printf '\\033[2J' >&2; exit 1",
      /ended with 1: "\\u001b\[2J"/,
    ],
    ["dies", "kill -TERM $$", /discover was ended by SIGTERM$/],
    ["prints nothing", "true", /printed no address/],
    ["prints a name", "echo consul.example", /printed "consul.example", which is no IP address/],
    ["prints without end", "while :; do echo 10.0.0.1; done", /prints too much/],
  ] as const
) {
  test(`findServers() names the fault of a command that ${name}`, async () => {
    await using program = await scripted(text);
    await assert.rejects(find(program.exec), wanted);
  });
}

test("findServers() reports a command that does not exist", async () => {
  await assert.rejects(
    find("exec=/nonexistent/discover"),
    /\/nonexistent\/discover cannot be run: .*ENOENT/,
  );
});

for (
  const [what, script] of [
    ["does not end", "exec sleep 100"],
    ["leaves a child process that holds its output open", "sleep 15 &\necho 10.0.0.1"],
  ] as const
) {
  test(`findServers() waits ten seconds at most for a command that ${what}`, async () => {
    await using program = await scripted(script);
    const clock = new FakeClock();
    const found = findServers(readServerPlaces(program.exec), { clock, lookup: systemLookup });
    found.catch(() => {});
    const startMs = performance.now();
    await clock.advance(10_000);
    await assert.rejects(found, /discover did not end within 10000 ms/);
    assert.ok(performance.now() - startMs < 10_000);
  });
}
