/**
 * Postern as a proxy between TLS and plain TCP, from the description that Envoy gets: Envoy's own words
 * for TLS and for the SDS server, pasted into a configuration file.
 *
 * @module
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Place } from "../wire/echo.ts";
import { isOpen, sdsCluster, type TlsProxy, type TlsProxyDescription } from "./envoy_tls.ts";
import { type Postern, runPostern } from "../process/postern.ts";
import { freePorts, loopbackHost } from "../process/ports.ts";

interface PosternTlsOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** More for the command line. */
  readonly args?: readonly string[];
  /** Intentions of the callers of `tls_in`; absent: all callers are let in. */
  readonly intentions?: readonly Readonly<Record<string, unknown>>[];
}

export class PosternTls implements TlsProxy {
  readonly postern: Postern;
  readonly #directory: string;
  readonly #places: Readonly<Record<string, Place>>;

  /** Ask {@link startPosternTls}. */
  constructor(postern: Postern, directory: string, places: Readonly<Record<string, Place>>) {
    this.postern = postern;
    this.#directory = directory;
    this.#places = places;
  }

  get output(): string {
    return this.postern.output;
  }

  async place(listener: "tls_in" | "tls_out"): Promise<Place | undefined> {
    const { ended } = this.postern.process;
    if (ended) throw new Error(`Postern ended\n${this.postern.process.tail()}`);
    const place = this.#places[listener];
    return place && await isOpen(place) ? place : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.postern[Symbol.asyncDispose]();
    } finally {
      await rm(this.#directory, { recursive: true, force: true });
    }
  }
}

/** Runs on the engine of the test; nothing but its admin server is waited for. */
export async function startPosternTls(
  description: TlsProxyDescription,
  options: PosternTlsOptions = {},
): Promise<PosternTls> {
  const { sds, sdsTls, inbound, outbound } = description;
  const directory = await mkdtemp(join(tmpdir(), "postern-tls-"));
  // Envoy listens on a given port as well: stories know the port before it is open.
  const host = inbound?.port === undefined ? loopbackHost() : "127.0.0.1";
  const [inPort = 0, outPort = 0] = await freePorts(host, 2);
  const places = {
    ...(inbound ? { tls_in: { host, port: inbound.port ?? inPort } } : {}),
    ...(outbound ? { tls_out: { host, port: outPort } } : {}),
  };
  const config = join(directory, "postern.json");
  await writeFile(
    config,
    JSON.stringify({
      service: "test-proxy",
      defaultAction: "allow",
      ...(options.intentions ? { intentions: options.intentions, defaultAction: "deny" } : {}),
      ...(sds ? { sds: [sdsCluster(sds, sdsTls)] } : {}),
      ...(inbound
        ? {
          inbound: {
            bind: addressOf(places.tls_in),
            local: addressOf(inbound.target),
            tls: inbound.tls,
          },
        }
        : {}),
      upstreams: outbound
        ? [{
          name: "target",
          bind: addressOf(places.tls_out),
          addresses: [addressOf(outbound.target)],
          tls: outbound.tls,
        }]
        : [],
    }),
  );
  const words = ["proxy", "-config", config, "-admin-bind", "127.0.0.1:0", ...options.args ?? []];
  const proxy = new PosternTls(
    runPostern(words, options.env ? { env: options.env } : {}),
    directory,
    places,
  );
  try {
    await proxy.postern.adminAddress();
    return proxy;
  } catch (error) {
    // It printed why.
    proxy.postern.expectEnd();
    await proxy[Symbol.asyncDispose]();
    throw error;
  }
}

function addressOf(place: Place | undefined): string {
  if (!place) throw new Error("Cannot write an address: there is none");
  return `${place.host}:${place.port}`;
}
