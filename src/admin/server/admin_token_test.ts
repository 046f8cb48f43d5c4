import { strict as assert } from "node:assert";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { readAdminToken, tokenFault } from "./admin_token.ts";

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
