import test, { after, before } from "node:test";
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runPostern } from "../../kit/process/postern.ts";

let directory = "";
before(async () => {
  directory = await mkdtemp(join(tmpdir(), "postern-usage-"));
  await writeFile(join(directory, "empty.json"), "{}");
  await writeFile(join(directory, "cut.json"), '{"service": "web"');
  await writeFile(join(directory, "garbage.pem"), "no certificate");
});
after(() => rm(directory, { recursive: true, force: true }));

const SIDECAR = ["proxy", "-sidecar-for", "web-1"];
/** DIR is replaced by a directory with the files above. */
const REFUSED: readonly (readonly [
  name: string,
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  says: RegExp,
])[] = [
  ["an unknown flag", [...SIDECAR, "-sidecar"], {}, /"?-sidecar"?.*did you mean "?-sidecar-for/],
  ["an unknown command", ["prox"], {}, /"prox".*did you mean "postern proxy"/],
  ["no command", [], {}, /no command was given/],
  ["nothing to stand for", ["proxy"], {}, /-sidecar-for, -proxy-id, -config or -service/],
  ["a bad duration", [...SIDECAR, "-drain-timeout", "8"], {}, /-drain-timeout.*"8"/],
  ["a bad number", [...SIDECAR, "-workers", "many"], {}, /-workers.*"many"/],
  ["a bad port", [...SIDECAR, "-admin-bind", "127.0.0.1:99999"], {}, /-admin-bind/],
  [
    "a listener without an application",
    ["proxy", "-service", "db", "-listen", ":1"],
    {},
    /-service-addr/,
  ],
  [
    "two sources at once",
    [...SIDECAR, "-config", "DIR/empty.json"],
    {},
    /-config with -sidecar-for/,
  ],
  [
    "a bad CONSUL_HTTP_ADDR",
    SIDECAR,
    { CONSUL_HTTP_ADDR: "ftp://x" },
    /CONSUL_HTTP_ADDR "ftp:\/\/x"/,
  ],
  ["a bad CONSUL_HTTP_SSL", SIDECAR, { CONSUL_HTTP_SSL: "maybe" }, /CONSUL_HTTP_SSL "maybe"/],
  [
    "a bad token",
    SIDECAR,
    { CONSUL_HTTP_TOKEN: "a\tb" },
    /CONSUL_HTTP_TOKEN/,
  ],
  [
    "a missing token file",
    SIDECAR,
    { CONSUL_HTTP_TOKEN_FILE: "DIR/none" },
    /CONSUL_HTTP_TOKEN_FILE "DIR\/none".*ENOENT/,
  ],
  [
    "a missing CA file",
    SIDECAR,
    { CONSUL_HTTP_ADDR: "https://127.0.0.1:8501", CONSUL_CACERT: "DIR/none" },
    /CONSUL_CACERT.*"DIR\/none".*ENOENT/,
  ],
  [
    "a CA file without a certificate",
    [...SIDECAR, "-ca-file", "DIR/garbage.pem", "-http-addr", "https://127.0.0.1:8501"],
    {},
    /-ca-file.*there is no certificate/,
  ],
  [
    "a missing configuration",
    ["proxy", "-config", "DIR/none.json"],
    {},
    /"DIR\/none.json": there is no such file/,
  ],
  [
    "half a configuration",
    ["proxy", "-config", "DIR/cut.json"],
    {},
    /"DIR\/cut.json":\s+line 1, column 18: the file is not JSON/,
  ],
  ["an empty configuration", ["proxy", "-config", "DIR/empty.json"], {}, /line 1.*service/s],
  ["a switched off trust store", SIDECAR, { NODE_TLS_REJECT_UNAUTHORIZED: "0" }, /unset it/],
];

for (const [name, words] of [["a usage error", ["-bad"]], ["a failed start", []]] as const) {
  test(`-log-json is kept by the last line, too: ${name}`, async () => {
    const file = ["-config", join(directory, "empty.json")];
    await using postern = runPostern(["proxy", "-log-json", ...file, ...words]);
    postern.expectEnd();
    await postern.process.waitExit({ timeoutMs: 30_000 });
    const lines = postern.output.trimEnd().split("\n").map((line) => JSON.parse(line));
    const { level, message, code } = lines.at(-1);
    assert.equal(level, "error");
    assert.match(message, /^Cannot .*(?:-bad|empty\.json)/);
    assert.match(code, /^(?:usage|config_invalid)$/);
  });
}

for (const [name, words, env, says] of REFUSED) {
  test(`${name} ends with 2, says why, and starts nothing`, async () => {
    const here = (text: string) => text.replaceAll("DIR", directory);
    await using postern = runPostern(words.map(here), {
      env: Object.fromEntries(Object.entries(env).map(([key, value]) => [key, here(value)])),
    });
    postern.expectEnd();
    const { code } = await postern.process.waitExit({ timeoutMs: 30_000 });
    const output = postern.output.replaceAll(directory, "DIR");
    assert.match(output, /^postern: /m);
    assert.match(output, says);
    assert.equal(code, 2);
    assert.doesNotMatch(output, /listen(er|ing)| {3}at /);
  });
}
