import assert from "node:assert/strict";
import { test } from "node:test";
import { mount, type RequestInit } from "../../src/kit/mod.ts";
import basicAuth from "./basic_auth.ts";
import { readUsers } from "./users.ts";

// Made with Python's `hashlib`: the passwords are "open sesame" and "pass:word".
const ALICE =
  "alice:$pbkdf2-sha256$1000$MDEyMzQ1Njc4OWFiY2RlZg$Mqp8wAsrOsjVEIymTD0kATxTpTf4f+0ZMgQPDlukk/w";
const BOB = "bob:{SHA}JfOwpCDy5ASLqp0M24rdutzyYk8=";
const users = [ALICE, BOB];

function sent(pair: string, scheme = "Basic"): RequestInit {
  return { headers: { authorization: `${scheme} ${btoa(pair)}` } };
}

for (
  const [what, request, want] of [
    ["the right password", sent("alice:open sesame"), "alice"],
    ["a hash in Envoy's form", sent("bob:pass:word"), "bob"],
    ["the scheme in another case", sent("bob:pass:word", "bASIC"), "bob"],
    ["no header", {}, "Missing username and password."],
    ["another scheme", { headers: { authorization: "Bearer abc" } }, "Expected 'Basic' "],
    ["no space after the scheme", { headers: { authorization: "Basic" } }, "Expected 'Basic' "],
    ["no base64", { headers: { authorization: "Basic a*b" } }, "Invalid basic credential format."],
    ["wrong padding", { headers: { authorization: "Basic YTpi=" } }, "Invalid basic cred"],
    ["no colon", sent("alice"), "Invalid basic credential format."],
    ["a line break in the name", sent("alice\r\nx-a: b:open sesame"), "Invalid basic cred"],
    ["a NUL in the password", sent("alice:open sesame\0"), "Invalid basic cred"],
    ["an oversized password", sent(`alice:${"x".repeat(3_000)}`), "Invalid basic cred"],
    ["the header twice", {
      headers: { authorization: [`Basic ${btoa("bob:pass:word")}`, `Basic ${btoa("eve:")}`] },
    }, "Invalid basic credential format."],
    ["two credentials in one field", {
      headers: { authorization: `Basic ${btoa("bob:pass:word")}, Basic ${btoa("eve:")}` },
    }, "Invalid basic credential format."],
    ["a wrong password", sent("alice:open sesame "), "Invalid username/password combination."],
    ["an empty password", sent("alice:"), "Invalid username/password combination."],
    ["an unknown user", sent("eve:open sesame"), "Invalid username/password combination."],
    ["a user in another case", sent("Alice:open sesame"), "Invalid username/password comb"],
    ["an empty user", sent(":open sesame"), "Invalid username/password combination."],
    ["the hash as the password", sent(BOB), "Invalid username/password combination."],
  ] as readonly (readonly [string, RequestInit, string])[]
) {
  test(`basic_auth of ${what}: ${want}`, async () => {
    const config = { users, forwardUsernameHeader: "X-User" };
    await using it = await mount(basicAuth, { config });
    const headers = { "x-user": "root", "X_User": "root", ...request.headers };
    const { status, headers: answered, failure } = await it.request({ ...request, headers });
    const [seen] = it.upstream.requests;
    if (/^[a-z]+$/.test(want)) {
      assert.deepEqual([status, seen?.headers("x-user"), seen?.headers("x_user")], [
        200,
        [want],
        [],
      ]);
      assert.equal(it.stat("requests", { result: "allowed" }), 1);
      return;
    }
    assert.deepEqual([status, seen, failure?.code], [401, undefined, "unauthenticated"]);
    assert.ok(failure?.reason.startsWith(`User authentication failed. ${want}`));
    assert.equal(answered.get("www-authenticate"), 'Basic realm="http://db/"');
    assert.equal(it.stat("requests", { result: "denied" }), 1);
  });
}

test("basic_auth checks a password once, and refuses a request if many others wait", async () => {
  const slow = ALICE.replace("alice", "carol").replace("$1000$", "$100000$");
  await using it = await mount(basicAuth, { config: { users: [ALICE, slow] } });
  const same = Array.from({ length: 30 }, () => it.request(sent("alice:open sesame")));
  assert.ok((await Promise.all(same)).every(({ status }) => status === 200));
  const guesses = Array.from({ length: 30 }, (_, i) => it.request(sent(`carol:guess ${i}`)));
  const [right, ...wrong] = await Promise.all([
    it.request(sent("alice:open sesame")),
    ...guesses,
  ]);
  assert.equal(right?.status, 200);
  const busy = wrong.filter(({ failure }) => failure?.code === "limit_reached").length;
  assert.equal(wrong.filter(({ status }) => status === 401).length, 30 - busy);
  assert.ok(busy > 10 && busy <= 22, `${busy}`);
  assert.equal(it.stat("requests", { result: "busy" }), busy);
});

test("basic_auth follows a file, and keeps the last good users if it is broken or gone", async () => {
  const usersFile = "/etc/users";
  const config = { usersFile };
  await assert.rejects(mount(basicAuth, { config }), /Cannot use \/etc\/users/);
  const files = { [usersFile]: `# staff\n\n${ALICE}\r\n${BOB}\n` };
  await using it = await mount(basicAuth, { config, files });
  const statuses = [(await it.request(sent("bob:pass:word"))).status];
  for (const text of ["bob:{SHA}short\n", null, ALICE, "# nobody"]) {
    it.write(usersFile, text);
    await it.clock.advance(2_000);
    for (const pair of ["bob:pass:word", "alice:open sesame"]) {
      statuses.push((await it.request(sent(pair))).status);
    }
  }
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 401, 200, 401, 401]);
  const shown = JSON.stringify(it.logs);
  assert.match(shown, /line 1: \\"bob\\": its hash is neither/);
  assert.doesNotMatch(shown, /short|pass:word|\$1000\$/);
});

for (
  const [line, fault] of [
    ["alice", "want NAME:HASH"],
    ["a b:{SHA}", "a name has 1 to 128 ASCII characters"],
    ["jörg:{SHA}", "a name has 1 to 128 ASCII characters"],
    [":{SHA}", "a name has 1 to 128 ASCII characters"],
    [`${BOB}\n${BOB}`, 'line 2: "bob" is there already'],
    ["a:plain", "neither $pbkdf2-sha256$ROUNDS$SALT$HASH nor {SHA}"],
    ["a:$2y$05$abcdefghijklmnopqrstuv", "neither $pbkdf2-sha256$"],
    ["a:$pbkdf2-sha256$999$MDEyMzQ1Njc4OWFiY2RlZg$AAAA", "want 1000 to 1000000 rounds"],
    ["a:$pbkdf2-sha256$1000001$MDEyMzQ1Njc4OWFiY2RlZg$AAAA", "want 1000 to 1000000 rounds"],
    ["a:$pbkdf2-sha256$1000$MDEy$AAAA", "want a salt of 8 bytes or more"],
    ["a:$pbkdf2-sha256$1000$MDEyMzQ1Njc4OWFiY2RlZg$AAAA", "does not have 32 bytes"],
  ] as const
) {
  test(`readUsers() refuses ${JSON.stringify(line)}`, () => {
    assert.throws(
      () => readUsers(line.split("\n")),
      ({ message }: Error) => message.includes(fault),
    );
  });
}

for (
  const [config, reason] of [
    [{}, /want either users or usersFile/],
    [{ users, usersFile: "/a" }, /want either users or usersFile/],
    [{ usersFile: "a" }, /usersFile: is no absolute path/],
    [{ users, forwardUsernameHeader: "Authorization" }, /is the header of the password/],
    [{ users, forwardUsernameHeader: "a b" }, /is no header's name/],
    [{ users, realm: "a" }, /config\.realm/],
  ] as const
) {
  test(`basic_auth refuses ${JSON.stringify(Object.keys(config))}: ${reason.source}`, async () => {
    await assert.rejects(mount(basicAuth, { config }), reason);
  });
}
