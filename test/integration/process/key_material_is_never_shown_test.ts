import test from "node:test";
import assert from "node:assert/strict";
import { readFile, rename, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { PATHS } from "../../../src/admin/home.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { runPostern } from "../../kit/process/postern.ts";
import { EchoClient, waitForEcho } from "../../kit/wire/echo.ts";
import { createFileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { keyPieces, piecesIn } from "../../kit/certs/key_pieces.ts";
import { freePort } from "../../kit/process/ports.ts";
import { eventually } from "../../kit/process/process.ts";

const GET_PATHS = ["/", ...PATHS.filter(([, , method]) => !method).map(([path]) => path)]
  // A stream without an end.
  .filter((path) => path !== "/tap");
const QUERIES = ["", "?format=json", "?format=text", "?format=prometheus"];

/** Every path of the admin server, in every form. */
async function everythingOf(web: { adminAddress(): Promise<string> }): Promise<string> {
  const [host, port] = (await web.adminAddress()).split(":");
  const bodies: string[] = [];
  for (const path of GET_PATHS) {
    for (const query of QUERIES) {
      bodies.push(
        await new Promise<string>((resolve, reject) => {
          const sent = request(
            { host, port: Number(port), path: path + query, agent: false },
            (reply) => {
              let body = "";
              reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
              reply.on("end", () => resolve(body)).on("error", reject);
            },
          );
          sent.on("error", reject).end();
        }),
      );
    }
  }
  return bodies.join("\n");
}

test("keys from files, the configuration and the environment appear nowhere", async () => {
  await using mesh = await createFileSidecar();
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  const authority = createAuthority();
  const { trustDomain } = authority;
  const leaves = Array.from({ length: 4 }, () => authority.issueLeaf({ service: "web" }));
  const [served, pasted, variable, next] = leaves;
  assert.ok(served && pasted && variable && next);
  const pieces = keyPieces([
    ...leaves.map(({ keyPem }) => keyPem),
    await readFile(join(mesh.directory, "web.key"), "utf8"),
  ]);
  const path = (name: string) => join(mesh.directory, name);
  const put = async (name: string, text: string) => {
    await writeFile(path(`${name}.new`), text, { mode: 0o600 });
    await rename(path(`${name}.new`), path(name));
  };
  await put("own.pem", served.certPem);
  await put("own.key", served.keyPem);
  await put("own-roots.pem", authority.rootPem);

  const { [0]: upstream } = config.upstreams;
  const pem = (text: string) => ({ inline_string: text });
  const envoys = (certPem: string, key: Readonly<Record<string, string>>) => ({
    common_tls_context: {
      tls_certificates: [{ certificate_chain: pem(certPem), private_key: key }],
      validation_context: { trusted_ca: pem(authority.rootPem) },
    },
  });
  config.trustDomain = trustDomain;
  config.inbound.tls = {
    source: "file",
    cert: "own.pem",
    key: "own.key",
    ca: "own-roots.pem",
  };
  config.upstreams = [
    { ...upstream, tls: envoys(pasted.certPem, pem(pasted.keyPem)) },
    {
      ...upstream,
      name: "environment",
      bind: upstream.bind.replace(/:\d+$/, `:${await freePort(mesh.upstream.host)}`),
      tls: envoys(variable.certPem, { environment_variable: "POSTERN_TEST_KEY" }),
    },
  ];
  await writeFile(file, JSON.stringify(config));

  await using web = runPostern([...mesh.args, "-log-level", "trace"], {
    env: { POSTERN_TEST_KEY: variable.keyPem },
  });
  await web.adminAddress();
  const logged = (kind: string) =>
    eventually(
      `an event "${kind}"`,
      async () =>
        JSON.parse((await web.admin("/events")).body).events
          .some(({ text }: { text: string }) => text.startsWith(`${kind} (`)),
    );
  await logged("loaded");
  await waitForEcho(mesh.upstream);
  const client = await EchoClient.open(mesh.upstream);
  await client.exchange(new TextEncoder().encode("hello"));
  await client.finish();

  const { certificates } = JSON.parse((await web.admin("/certs")).body);
  const own = certificates.find(({ listeners, cert_chain }: Record<string, string[]>) =>
    listeners?.includes("inbound") && cert_chain?.length
  );
  assert.equal(own.cert_chain[0].path, path("own.pem"));
  const everything = [await everythingOf(web)];

  // Torn: the certificate is new, the key is the old one's.
  await put("own.pem", next.certPem);
  await logged("rejected");
  await eventually("it is counted", async () => {
    const { body } = await web.admin("/stats?filter=key_rotation_failed");
    return /^sds\..*own\.pem\.key_rotation_failed: [1-9]/m.test(body);
  });
  everything.push(await everythingOf(web));
  // Key and certificate in each other's place, and a key cut short.
  await put("own.pem", next.keyPem);
  await put("own.key", next.certPem);
  await put("own.key", next.keyPem.slice(0, -60));
  await put("own.pem", `${next.keyPem}\n${next.certPem}`);
  everything.push(await everythingOf(web));
  await put("own.key", next.keyPem);
  await put("own.pem", next.certPem);
  await logged("rotated");
  everything.push(await everythingOf(web));

  for (const body of everything) assert.deepEqual(piecesIn(body, pieces), []);
  await web.stop();
  assert.match(web.output, /certificate rotated/);
  assert.deepEqual(piecesIn(web.output, pieces), []);
});
