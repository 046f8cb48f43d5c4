/** Encrypted keys and PKCS#12 as OpenSSL writes them are served, and rotate together with their password. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import type { IssuedLeaf } from "../../kit/certs/authority.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { eventually, runToEnd } from "../../kit/process/process.ts";
import { probeTls, serialOf } from "../../kit/wire/tls_probe.ts";
import { clientPair } from "../../kit/wire/tls_session.ts";
import { FileListener } from "./file_listener.ts";

const authority = createAuthority();
const client = clientPair(authority.issueLeaf({ service: "shop" }));

type Files = Readonly<Record<string, string | Uint8Array>>;

interface Form {
  readonly name: string;
  readonly tls: Readonly<Record<string, string>>;
  /** The files that OpenSSL makes of a leaf and its key. */
  make(leaf: IssuedLeaf, password: string): Promise<Files>;
}

const FORMS: readonly Form[] = [
  {
    name: "a PKCS#8 key encrypted with AES",
    tls: { cert: "web.crt", key: "web.key", keyPasswordFile: "web.password" },
    make: async (leaf, password) => ({
      "web.crt": leaf.certPem,
      "web.key": await openssl(leaf, password, (path, password) => [
        ...["pkcs8", "-topk8", "-in", path("in.key"), "-v2", "aes-256-cbc"],
        ...["-passout", password, "-out", path("out")],
      ]),
      "web.password": `${password}\n`,
    }),
  },
  {
    name: "a SEC1 key encrypted as OpenSSL once did",
    tls: { cert: "web.crt", key: "web.key", keyPasswordFile: "web.password" },
    make: async (leaf, password) => ({
      "web.crt": leaf.certPem,
      "web.key": await openssl(leaf, password, (path, password) => [
        ...["ec", "-in", path("in.key"), "-aes256", "-passout", password, "-out", path("out")],
      ]),
      "web.password": password,
    }),
  },
  {
    name: "PKCS#12",
    tls: { pkcs12: "web.p12", keyPasswordFile: "web.password" },
    make: async (leaf, password) => ({
      "web.p12": await openssl(leaf, password, (path, password) => [
        ...["pkcs12", "-export", "-inkey", path("in.key"), "-in", path("in.crt")],
        ...["-passout", password, "-out", path("out")],
      ]),
      "web.password": password,
    }),
  },
];

for (const { name, tls, make } of FORMS) {
  test(`${name} is served and rotates with its password`, async () => {
    const [first, second] = [newLeaf(), newLeaf()];
    await using listener = await FileListener.start(
      { ...await make(first, "correct horse"), "ca.pem": authority.rootPem },
      { ...tls, ca: "ca.pem" },
    );
    const place = await listener.shows(first, client);
    const made = await make(second, "battery staple");
    // The old password is refused and logged, and nothing is lost.
    const { "web.password": password = "", ...rest } = made;
    await listener.write(rest);
    const rejected = () => listener.lines("secret rejected");
    await eventually("a wrong password is logged", () => rejected().length === 1);
    const outcome = await probeTls(place, client);
    assert.ok(outcome.accepted && outcome.serial === serialOf(first.certPem));
    await listener.write({ "web.password": password });
    await listener.shows(second, client);
    assert.doesNotMatch(listener.postern.output, /correct horse|battery staple/);
  });
}

function newLeaf(): IssuedLeaf {
  return authority.issueLeaf({ service: "web" });
}

/** The file that a command of OpenSSL writes to `out`, given `in.crt` and `in.key`. */
async function openssl(
  { certPem, keyPem }: IssuedLeaf,
  password: string,
  words: (path: (name: string) => string, password: string) => readonly string[],
): Promise<Uint8Array> {
  const directory = await mkdtemp(join(tmpdir(), "postern-openssl-"));
  const path = (name: string) => join(directory, name);
  try {
    await writeFile(path("in.crt"), certPem);
    await writeFile(path("in.key"), keyPem, { mode: 0o600 });
    await runToEnd("openssl", words(path, `pass:${password}`), { timeoutMs: 60_000 });
    return new Uint8Array(await readFile(path("out")));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
