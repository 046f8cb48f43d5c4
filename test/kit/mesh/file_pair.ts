/**
 * Two sidecars of `postern proxy -config` for stories about HTTP: `web` calls `db`, which may have
 * several instances, each with an application of its own. Files take the place of an agent, so that a
 * story can change them while requests are under way.
 *
 * @module
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { IssuedLeaf } from "../certs/authority.ts";
import { createAuthority } from "../certs/certificates.ts";
import type { Place } from "../wire/echo.ts";
import { freePorts, loopbackHost } from "../process/ports.ts";
import { type Postern, ready, runPostern } from "../process/postern.ts";
import { eventually } from "../process/process.ts";

type Json = Readonly<Record<string, unknown>>;

interface FilePairOptions {
  readonly protocol: "http" | "http2" | "grpc";
  /** The application of each instance of db. */
  readonly apps: readonly Place[];
  /** `http` of db's listener, and of web's upstream. */
  readonly inbound?: Json;
  readonly outbound?: Json;
  readonly intentions?: readonly Json[];
  readonly args?: readonly string[];
  /** Words in front of db's command. */
  readonly underDb?: readonly string[];
  /** Other keys of the upstream: `maxConnections`. */
  readonly upstream?: Json;
}

export interface FilePair extends AsyncDisposable {
  readonly web: Postern;
  /** db's sidecars, in the order of the applications. */
  readonly dbs: readonly Postern[];
  /** Where web's application reaches db. */
  readonly upstream: Place;
  /** The public listener of each instance. */
  readonly publics: readonly Place[];
  /** A certificate with which another caller is web. */
  issueWeb(): IssuedLeaf;
  /** Rules for calls to db from now on; resolves when all instances have read them. */
  setIntentions(intentions: readonly Json[]): Promise<void>;
  /** Every sidecar gets another leaf, from a new root if asked; both roots are trusted meanwhile. */
  rotate(options: { readonly root: boolean }): Promise<void>;
  /** Starts another process of this sidecar, without waiting for it. */
  another(sidecar: "web" | "db"): Postern;
  /** Kills an instance of db and waits until it is gone. */
  kill(index: number): Promise<void>;
  /** Starts a killed one again. */
  revive(index: number): Promise<void>;
}

export const ALLOW_WEB: readonly Json[] = [{ source: "web", action: "allow" }];

export async function startFilePair(options: FilePairOptions): Promise<FilePair> {
  const directory = await mkdtemp(join(tmpdir(), "postern-file-pair-"));
  await using own = new AsyncDisposableStack();
  own.defer(() => rm(directory, { recursive: true, force: true }));
  const host = loopbackHost();
  const { protocol, apps, args = [], underDb = [] } = options;
  const [upstream = 0, webAdmin = 0, ...ports] = await freePorts(host, 2 + 2 * apps.length);
  const publics = apps.map((_, at) => ({ host, port: ports[2 * at] ?? 0 }));
  const path = (name: string) => join(directory, name);
  let authority = createAuthority();
  const roots = [authority.rootPem];
  const issue = async () => {
    for (const service of ["web", "db"]) {
      const leaf = authority.issueLeaf({ service });
      await writeFile(path(`${service}.key`), leaf.keyPem, { mode: 0o600 });
      await writeFile(path(`${service}.pem`), leaf.certPem);
    }
  };
  const credentialsOf = (service: string) => ({
    certFile: path(`${service}.pem`),
    keyFile: path(`${service}.key`),
    rootsFile: path("roots.pem"),
  });
  const common = (service: string) => ({
    service,
    trustDomain: authority.trustDomain,
    credentials: credentialsOf(service),
  });
  const writeDbs = async (intentions: readonly Json[]) => {
    for (const [at, app] of apps.entries()) {
      const inbound = {
        bind: `${host}:${publics[at]?.port}`,
        local: `${app.host}:${app.port}`,
        protocol,
        ...(options.inbound ? { http: options.inbound } : {}),
      };
      await writeFile(
        path(`db-${at}.json`),
        JSON.stringify({ ...common("db"), inbound, intentions }),
      );
    }
  };
  await issue();
  await writeFile(path("roots.pem"), roots.join(""));
  await writeDbs(options.intentions ?? ALLOW_WEB);
  await writeFile(
    path("web.json"),
    JSON.stringify({
      ...common("web"),
      upstreams: [{
        name: "db",
        bind: `${host}:${upstream}`,
        protocol,
        addresses: publics.map(({ port }) => `${host}:${port}`),
        identity: { service: "db" },
        ...(options.outbound ? { http: options.outbound } : {}),
        ...options.upstream,
      }],
    }),
  );
  const start = (name: string, adminPort: number, under: readonly string[] = []): Postern => {
    const adminAddress = `${host}:${adminPort}`;
    const command = ["proxy", "-config", path(`${name}.json`), "-admin-bind", adminAddress];
    return runPostern([...command, ...args], { adminAddress, under });
  };
  const startDb = (at: number) => start(`db-${at}`, ports[2 * at + 1] ?? 0, underDb);
  const dbs = apps.map((_, at) => own.use(startDb(at)));
  const web = own.use(start("web", webAdmin));
  await Promise.all([web, ...dbs].map(ready));
  const reload = async (sidecars: readonly Postern[]) => {
    const signalled = sidecars.filter(({ process }) => !process.ended);
    const counts = signalled.map((sidecar) => reloadsOf(sidecar));
    for (const sidecar of signalled) sidecar.kill("SIGHUP");
    await eventually("the sidecars have read their files", () => {
      return signalled.every((sidecar, at) => reloadsOf(sidecar) > (counts[at] ?? 0));
    });
  };
  // Processes that are started later are disposed with the rest.
  const stack = own.move();
  return {
    web,
    dbs,
    upstream: { host, port: upstream },
    publics,
    issueWeb: () => authority.issueLeaf({ service: "web" }),
    async setIntentions(intentions) {
      await writeDbs(intentions);
      await reload(dbs);
    },
    async rotate({ root }) {
      if (root) {
        authority = createAuthority();
        roots.push(authority.rootPem);
        await writeFile(path("roots.pem"), roots.join(""));
        // Every sidecar trusts the new root before any shows a leaf that it signed.
        await reload([web, ...dbs]);
      }
      await issue();
      await reload([web, ...dbs]);
    },
    another: (sidecar) => stack.use(sidecar === "web" ? start("web", webAdmin) : startDb(0)),
    async kill(index) {
      dbs[index]?.kill("SIGKILL");
      await dbs[index]?.process.exited;
    },
    async revive(index) {
      dbs[index] = stack.use(await ready(startDb(index)));
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function reloadsOf({ output }: Postern): number {
  return output.match(/files reloaded/g)?.length ?? 0;
}
