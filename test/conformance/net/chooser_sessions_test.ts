/**
 * The contract of choosers and resumption: a session made under one certificate or validation is worth
 * nothing under another.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Ticket, TlsMaterial } from "../../../src/net/mod.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { leafOf, serveAtOnce } from "./chooser_kit.ts";
import { ca, dial, engine, materialOf, resumes, type SecureServer } from "./kit.ts";

const leaf = ca.issueLeaf({ service: "db" });
const web = ca.intermediate().issueLeaf({ service: "web" });
const many = Array.from({ length: 22 }, (_, at) => createAuthority({ name: `root ${at}` }));
const pems = (from: number, to: number) => many.slice(from, to).map(({ rootPem }) => rootPem);

interface Visit {
  readonly ticket: Ticket | undefined;
  readonly resumed: boolean | undefined;
}

/** One connection under `serverName`; the server always learns who came, resumed or not. */
async function visit(
  server: SecureServer,
  options: {
    readonly serverName: string;
    readonly material: TlsMaterial;
    readonly ticket?: Ticket | undefined;
    readonly asked: boolean;
  },
): Promise<Visit> {
  const index = server.sides.length;
  const dialled = dial(server.port, options);
  const client = await dialled.side();
  const side = await server.side(index);
  client.write("hello");
  await side.received("hello");
  side.write("hello");
  await client.received("hello");
  assert.equal(leafOf(side.peer), options.asked ? leafOf({ leaf: web.certDer }) : "");
  if (options.asked) assert.ok((side.peer?.chain().length ?? 0) > 0);
  const resumed = client.peer?.resumed;
  assert.equal(side.peer?.resumed, resumed);
  if (resumes && !resumed) {
    await dialled.waiting.until(() => dialled.tickets.length > 0, () => "no ticket came");
  }
  client.connection.close();
  return { ticket: dialled.tickets.at(-1), resumed };
}

for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
  const only = { minVersion: version, maxVersion: version };
  for (
    const [name, first, second] of [
      ["another certificate", {}, { leaf: ca.issueLeaf({ service: "db" }) }],
      ["other roots that are checked", { check: "checked" }, {
        check: "checked",
        rootPems: [ca.rootPem, ...pems(0, 1)],
      }],
      ["other roots that are not", {}, { rootPems: pems(0, 1) }],
      ["other roots that are too many to name", { rootPems: pems(0, 21) }, {
        rootPems: pems(1, 22),
      }],
      ["a check", {}, { check: "checked" }],
      ["the asking for a certificate", { check: "ignored" }, {}],
    ] as const satisfies ReadonlyArray<readonly [string, Settings, Settings]>
  ) {
    test(`${version}: a session is not resumed across ${name}`, async () => {
      const tls = new Map([["one.test", serverTls(first, only)], [
        "two.test",
        serverTls(second, only),
      ]]);
      await using server = await serveAtOnce((hello) => tls.get(hello.serverName ?? ""));
      const material = materialOf(web, { ...only, peerCheck: "shown" });
      const one = { serverName: "one.test", material, asked: isAsked(first) };
      const two = { serverName: "two.test", material, asked: isAsked(second) };
      const { ticket, resumed } = await visit(server, one);
      assert.equal(resumed, false);
      assert.equal((await visit(server, { ...two, ticket })).resumed, false);
      // The ticket itself was good.
      assert.equal((await visit(server, { ...one, ticket })).resumed, resumes);
    });
  }
}

interface Settings {
  readonly leaf?: typeof leaf;
  readonly check?: TlsMaterial["peerCheck"];
  readonly rootPems?: readonly string[];
}

function serverTls(settings: Settings, only: Partial<TlsMaterial>) {
  const { leaf: shown = leaf, check = "shown", rootPems = [ca.rootPem] } = settings;
  return engine.serverTls(materialOf(shown, { ...only, peerCheck: check, rootPems }));
}

function isAsked({ check }: Settings): boolean {
  return check !== "ignored";
}
