/**
 * One real process whose listeners and upstreams all have credentials in files of their own, so that a
 * connection through it shakes hands twice with certificates that rotate: its client with an upstream's
 * listener, and that upstream, as a client, with the inbound listener in front of an echo.
 *
 * @module
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Authority, IssuedLeaf } from "../../kit/certs/authority.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { type Place, startEcho, type TestServer } from "../../kit/wire/echo.ts";
import { OWN_ENGINE, type Postern, runPostern, startPostern } from "../../kit/process/postern.ts";
import { freePorts, loopbackHost } from "../../kit/process/ports.ts";
import { RotatingFiles, type RotationScheme } from "../../kit/secrets/rotating_files.ts";
import { SerialServer } from "./serial_server.ts";

/** A name that a TLS library finds in every leaf of {@link issue}. */
export const SERVER_NAME = "web.rotating.test";

export interface Client {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** A leaf for `service` that also has {@link SERVER_NAME}. */
export function issue(authority: Authority, service = "web"): IssuedLeaf {
  return authority.issueLeaf({ service, overrides: { dnsNames: [SERVER_NAME] } });
}

/** Someone from outside, known to that authority. */
export function clientOf(authority: Authority, service = "shop"): Client {
  const leaf = issue(authority, service);
  return { cert: leaf.certPem, key: leaf.keyPem, ca: authority.rootPem };
}

export class RotatingMesh implements AsyncDisposable {
  readonly authority: Authority;
  readonly postern: Postern;
  /** One for each upstream; the inbound listener has the files of the first. */
  readonly files: readonly RotatingFiles[];
  readonly inbound: Place;
  /** Listeners of the upstreams, in the order of {@link files}. */
  readonly upstreams: readonly Place[];
  /** Plain listeners that lead to {@link serials} and show it the certificate of each of the files. */
  readonly outward: readonly Place[];
  /** A server of the test's own, who sees what certificate it is shown. */
  readonly serials: SerialServer;
  readonly #echo: TestServer;
  readonly #directory: string;

  private constructor(
    parts:
      & Pick<
        RotatingMesh,
        "authority" | "postern" | "files" | "inbound" | "upstreams" | "outward" | "serials"
      >
      & { readonly echo: TestServer; readonly directory: string },
  ) {
    this.authority = parts.authority;
    this.postern = parts.postern;
    this.files = parts.files;
    this.inbound = parts.inbound;
    this.upstreams = parts.upstreams;
    this.outward = parts.outward;
    this.serials = parts.serials;
    this.#echo = parts.echo;
    this.#directory = parts.directory;
  }

  /** One place with files for each of `schemes`; `under`: words in front of the command. */
  static async start(
    schemes: readonly RotationScheme[],
    options: { readonly under?: readonly string[] } = {},
  ): Promise<RotatingMesh> {
    const { under } = options;
    const authority = createAuthority();
    const host = loopbackHost();
    const echo = await startEcho({ host });
    const serials = await SerialServer.start(host, issue(authority), authority);
    // No other process takes a port here until the proxy has taken all of these.
    const count = schemes.length;
    const [inboundPort = 0, adminPort = 0, ...free] = await freePorts(host, 2 + 2 * count);
    const ports = free.slice(0, count);
    const outwardPorts = free.slice(count);
    const files = await Promise.all(
      schemes.map((scheme) =>
        RotatingFiles.create(scheme, { ...issue(authority), caPem: authority.rootPem })
      ),
    );
    const directory = await mkdtemp(join(tmpdir(), "postern-rotating-mesh-"));
    const config = join(directory, "web.json");
    const tlsOf = (files: RotatingFiles | undefined) => ({ source: "file", ...files?.paths });
    const { uri } = issue(authority);
    await writeFile(
      config,
      JSON.stringify({
        service: "web",
        defaultAction: "allow",
        inbound: {
          bind: `${host}:${inboundPort}`,
          local: `${host}:${echo.port}`,
          tls: tlsOf(files[0]),
        },
        upstreams: [
          ...ports.map((port, index) => ({
            name: `web-${index}`,
            bind: `${host}:${port}`,
            addresses: [`${host}:${inboundPort}`],
            spiffeIds: [uri],
            tls: tlsOf(files[index]),
            listenerTls: tlsOf(files[index]),
          })),
          ...outwardPorts.map((port, index) => ({
            name: `outward-${index}`,
            bind: `${host}:${port}`,
            addresses: [`${host}:${serials.port}`],
            spiffeIds: [uri],
            tls: tlsOf(files[index]),
          })),
        ],
      }),
    );
    const words = ["proxy", "-config", config, "-admin-bind", `${host}:${adminPort}`];
    const postern = under ? startPostern(words, { under, engine: OWN_ENGINE }) : runPostern(words);
    const place = (port: number) => ({ host, port });
    const mesh = new RotatingMesh({
      authority,
      postern,
      files,
      serials,
      echo,
      directory,
      inbound: place(inboundPort),
      outward: outwardPorts.map(place),
      upstreams: ports.map(place),
    });
    try {
      await postern.waitReady();
    } catch (error) {
      postern.expectEnd();
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
    return mesh;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.postern[Symbol.asyncDispose]();
    } finally {
      await Promise.all([
        this.#echo.close(),
        this.serials.close(),
        rm(this.#directory, { recursive: true, force: true }),
        ...this.files.map((files) => files[Symbol.asyncDispose]()),
      ]);
    }
  }
}
