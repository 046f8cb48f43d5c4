import { strict as assert } from "node:assert";
import { test } from "node:test";
import { machineNames, readAdminToken, tokenFault } from "./guard.ts";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

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

const TOKEN = "an-admin-token-of-enough-characters";

async function withFile(
  story: (file: string, write: (text: string, mode?: number) => Promise<void>) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "postern-admin-token-"));
  const file = join(directory, "token");
  try {
    await story(file, async (text, mode = 0o600) => {
      await writeFile(file, text);
      await chmod(file, mode);
    });
  } finally {
    await rm(directory, { recursive: true });
  }
}

for (
  const [name, text, mode, fault] of [
    ["takes a token", TOKEN, 0o600, undefined],
    ["takes one with a line end that its group can read", `${TOKEN}\n`, 0o640, undefined],
    ["refuses one that others can read", TOKEN, 0o604, /others may read or write it \(mode 0604\)/],
    ["refuses one that its group can write", TOKEN, 0o660, /mode 0660\); chmod 0600/],
    ["refuses an empty file", "", 0o600, /16 to 4096/],
    ["refuses a short one", "short", 0o600, /16 to 4096/],
    ["refuses two", `${TOKEN} ${TOKEN}`, 0o600, /16 to 4096/],
    ["refuses a long one", "x".repeat(10_000), 0o600, /16 to 4096/],
  ] as const
) {
  test(`readAdminToken() ${name}`, () =>
    withFile(async (file, write) => {
      await write(text, mode);
      if (!fault) return assert.equal(readAdminToken(file), TOKEN);
      assert.throws(() => readAdminToken(file), (error: Error) => {
        assert.match(error.message, fault);
        return !error.message.includes(TOKEN);
      });
    }));
}

for (
  const [name, shown, fault] of [
    ["the token", `Bearer ${TOKEN}`, undefined],
    ["the token, the scheme in another case", `bearer  ${TOKEN}`, undefined],
    ["nothing", undefined, /shows no token/],
    ["another scheme", `Basic ${TOKEN}`, /shows no token/],
    ["part of it", `Bearer ${TOKEN.slice(1)}`, /not ours/],
    ["more than it", `Bearer ${TOKEN}x`, /not ours/],
  ] as const
) {
  test(`tokenFault() of ${name}`, () =>
    withFile(async (file, write) => {
      await write(TOKEN);
      const said = tokenFault(file, shown);
      if (fault) assert.match(said ?? "", fault);
      else assert.equal(said, undefined);
    }));
}

test("tokenFault() reads the file again on each call", () =>
  withFile(async (file, write) => {
    assert.match(tokenFault(file, `Bearer ${TOKEN}`) ?? "", /Cannot use -admin-token-file/);
    await write(TOKEN);
    assert.equal(tokenFault(file, `Bearer ${TOKEN}`), undefined);
    await write(`${TOKEN}-2`);
    assert.match(tokenFault(file, `Bearer ${TOKEN}`) ?? "", /not ours/);
    await write(TOKEN, 0o666);
    assert.match(tokenFault(file, `Bearer ${TOKEN}`) ?? "", /others may/);
  }));
