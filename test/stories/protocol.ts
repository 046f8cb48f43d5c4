/**
 * The protocol of a service is central configuration, which both sides of a connection follow live.
 */

import assert from "node:assert/strict";
import test from "node:test";
import { waitForEcho } from "../kit/wire/echo.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import type { Agents } from "../kit/mesh/mesh.ts";
import { eventually } from "../kit/process/process.ts";
import type { Postern } from "../kit/process/postern.ts";

interface Shown {
  readonly snapshot: {
    readonly inbound: { readonly http: Rules };
    readonly upstreams: Readonly<
      Record<string, { readonly http: Rules; readonly maxRequests: number }>
    >;
    readonly exposed: Readonly<Record<string, unknown>>;
  };
}

/** `HttpRules`, as far as they are looked at here. */
type Rules = {
  readonly protocol: string;
  readonly requestTimeoutMs: number;
  readonly path: { readonly mergeSlashes: boolean; readonly escapedSlashes: string };
} | null;

const DB = "service:default/default/db";

export function protocol(agents: Agents): void {
  test("a service's protocol, timeouts and the mesh's rules for requests are followed live", async (t) => {
    await using mesh = await agents.start({ defaultIntentionPolicy: "allow" });
    await using app = await mesh.echo();
    await using db = await mesh.serve({ name: "db", port: app.port });
    const upstream = { name: "db", ...await mesh.place() };
    await using web = await mesh.serve({ name: "web", upstreams: [upstream] });
    await waitForEcho(upstream);
    const inbound = async () => (await shown(db)).inbound.http;
    const outbound = async () => (await shown(web)).upstreams[DB];
    const speak = async (Protocol: string, rest: object = {}) => {
      await mesh.configEntry({ Kind: "service-defaults", Name: "db", Protocol, ...rest });
      await eventually(`both speak ${Protocol}`, async () => {
        const spoken = [await inbound(), (await outbound())?.http];
        return spoken.every((rules) => (rules?.protocol ?? "tcp") === Protocol);
      });
    };

    await t.test("tcp becomes http", () => speak("http", { LocalRequestTimeoutMs: 1_234 }));

    await t.test("with the time that a request has", async () => {
      assert.equal((await inbound())?.requestTimeoutMs, 1_234);
      await mesh.configEntry({
        Kind: "service-resolver",
        Name: "db",
        RequestTimeout: "2s",
      });
      await eventually("the resolver's is taken", async () => {
        return (await outbound())?.http?.requestTimeoutMs === 2_000;
      });
    });

    await t.test("and as many as central configuration allows", async () => {
      const Limits = { MaxConcurrentRequests: 7 };
      const UpstreamConfig = { Overrides: [{ Name: "db", Limits }] };
      await mesh.configEntry({ Kind: "service-defaults", Name: "web", UpstreamConfig });
      await eventually("the limit is taken", async () => (await outbound())?.maxRequests === 7);
    });

    await t.test("under the mesh's rules", async () => {
      await mesh.configEntry({
        Kind: "mesh",
        HTTP: {
          Incoming: {
            RequestNormalization: {
              MergeSlashes: true,
              PathWithEscapedSlashesAction: "REJECT_REQUEST",
            },
          },
        },
      });
      await eventually("they are taken", async () => (await inbound())?.path.mergeSlashes === true);
      assert.equal((await inbound())?.path.escapedSlashes, "reject");
    });

    await t.test("an exposed path is open to every caller, and no other path is", async () => {
      await using health = await startRawOrigin(() => answerOf("healthy"), { host: mesh.host });
      const { host, port } = await mesh.place();
      const Paths = [{ Path: "/health", ListenerPort: port, LocalPathPort: health.port }];
      await speak("http2", { Expose: { Paths } });
      await eventually("it is taken", async () => {
        return `exposed:${port}` in (await shown(db)).exposed;
      });
      const ask = (path: string) =>
        eventually("an instance answers", async () => {
          const reply = await fetch(`http://${host}:${port}${path}`).catch(() => undefined);
          return reply && [reply.status, await reply.text()];
        });
      assert.deepEqual(await ask("/health?deep"), [200, "healthy"]);
      assert.deepEqual((await ask("/healthy"))[0], 404);
      assert.equal(health.requests.length, 1);
    });
  });
}

async function shown(sidecar: Postern): Promise<Shown["snapshot"]> {
  return (JSON.parse((await sidecar.admin("/config_dump")).body) as Shown).snapshot;
}
