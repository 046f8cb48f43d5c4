/**
 * A sidecar that needs no agent, for stories about processes: a configuration file in which the service
 * `web` is its own upstream, so that one proxy carries a connection both ways.
 *
 * @module
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAuthority } from "../certs/certificates.ts";
import { type Place, startEcho, type TestServer } from "../wire/echo.ts";
import { freePorts, loopbackHost } from "../process/ports.ts";

export interface FileSidecar extends AsyncDisposable {
  readonly directory: string;
  /** The arguments of `postern` on the command line. */
  readonly args: readonly string[];
  /** Bytes that come back from here went through the proxy twice. */
  readonly upstream: Place;
  /** Where callers from the mesh connect, and strangers. */
  readonly inbound: Place;
  readonly admin: Place;
  /** Status of `/ready`, 0 where nothing answers. */
  readyStatus(): Promise<number>;
}

export async function createFileSidecar(): Promise<FileSidecar> {
  const directory = await mkdtemp(join(tmpdir(), "postern-file-sidecar-"));
  const host = loopbackHost();
  const [inbound = 0, upstream = 0, admin = 0] = await freePorts(host, 3);
  const echo: TestServer = await startEcho({ host });
  const authority = createAuthority();
  const leaf = authority.issueLeaf({ service: "web" });
  const path = (name: string) => join(directory, name);
  await writeFile(path("web.pem"), leaf.certPem);
  await writeFile(path("web.key"), leaf.keyPem, { mode: 0o600 });
  await writeFile(path("roots.pem"), authority.rootPem);
  await writeFile(
    path("web.json"),
    JSON.stringify({
      service: "web",
      trustDomain: authority.trustDomain,
      credentials: {
        certFile: path("web.pem"),
        keyFile: path("web.key"),
        rootsFile: path("roots.pem"),
      },
      inbound: { bind: `${host}:${inbound}`, local: `${host}:${echo.port}` },
      upstreams: [{
        name: "web",
        bind: `${host}:${upstream}`,
        addresses: [`${host}:${inbound}`],
        identity: { service: "web", datacenter: "dc1" },
      }],
      intentions: [{ source: "web", action: "allow" }],
    }),
  );
  return {
    directory,
    args: ["proxy", "-config", path("web.json"), "-admin-bind", `${host}:${admin}`],
    upstream: { host, port: upstream },
    inbound: { host, port: inbound },
    admin: { host, port: admin },
    readyStatus: () =>
      new Promise((resolve) => {
        const sent = request({ host, port: admin, path: "/ready", agent: false }, (reply) => {
          reply.resume();
          resolve(reply.statusCode ?? 0);
        });
        sent.setTimeout(15_000, () => sent.destroy());
        sent.on("error", () => resolve(0));
        // Not every runtime calls it an error that we gave up ourselves.
        sent.on("close", () => resolve(0));
        sent.end();
      }),
    async [Symbol.asyncDispose]() {
      await echo.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
