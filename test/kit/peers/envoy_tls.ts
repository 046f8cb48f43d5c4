/**
 * One proxy between TLS and plain TCP, described in Envoy's own words, and Envoy 1.40 as such a proxy:
 * the listener `tls_in` takes TLS and relays to a plain echo, `tls_out` takes plain TCP and dials with
 * TLS. Stories that compare proxies give the same description to each.
 *
 * @module
 */

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../../scripts/peers.ts";
import type { Place } from "../wire/echo.ts";
import { eventually, Process } from "../process/process.ts";

/** Proto-JSON of Envoy's messages. */
type Json = Readonly<Record<string, unknown>>;

export interface TlsProxyDescription {
  /** The SDS server's address, `host:port` or `unix:/path`, behind {@link sdsSecret}. */
  readonly sds?: string;
  /** `UpstreamTlsContext` of the connections there; absent: plain text. */
  readonly sdsTls?: Json;
  /** `DownstreamTlsContext` of `tls_in`, and what its bytes go to. */
  readonly inbound?: { readonly tls: Json; readonly target: Place; readonly port?: number };
  /** `UpstreamTlsContext` of `tls_out`, and the TLS server that it dials. */
  readonly outbound?: { readonly tls: Json; readonly target: Place };
}

export interface TlsProxy extends AsyncDisposable {
  /** Undefined: the listener is not open. */
  place(listener: "tls_in" | "tls_out"): Promise<Place | undefined>;
  /** The log output. */
  readonly output: string;
}

export type StartTlsProxy = (description: TlsProxyDescription) => Promise<TlsProxy>;

/** The cluster that {@link sdsSecret} names. */
export const SDS_CLUSTER = "sds_cluster";

/** An `SdsSecretConfig` that reads `name` from the description's SDS server. */
export function sdsSecret(
  name: string,
  options: { readonly api?: "sotw" | "delta"; readonly initialFetchTimeoutMs?: number } = {},
): Json {
  const { api = "sotw", initialFetchTimeoutMs } = options;
  return {
    name,
    sds_config: {
      resource_api_version: "V3",
      ...(initialFetchTimeoutMs === undefined
        ? {}
        : { initial_fetch_timeout: `${initialFetchTimeoutMs / 1000}s` }),
      api_config_source: {
        api_type: api === "delta" ? "DELTA_GRPC" : "GRPC",
        transport_api_version: "V3",
        grpc_services: [{ envoy_grpc: { cluster_name: SDS_CLUSTER } }],
      },
    },
  };
}

class Envoy implements TlsProxy {
  readonly #process: Process;
  readonly #directory: string;
  #admin: Place | undefined;

  constructor(process: Process, directory: string) {
    this.#process = process;
    this.#directory = directory;
  }

  get output(): string {
    return this.#process.output;
  }

  /** Waits for its admin port: its other listeners depend on its secrets. */
  async waitForAdmin(): Promise<void> {
    this.#admin = await eventually("Envoy's admin address", async () => {
      if (this.#process.ended) throw new Error("it ended");
      const text = (await readFile(join(this.#directory, "admin"), "utf8")).trim();
      // The file is there before its text is.
      return /:\d+$/.test(text) && parsePlace(text);
    }, { timeoutMs: 60_000 }).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.#process.tail()}`);
    });
  }

  async place(listener: string): Promise<Place | undefined> {
    const listed = JSON.parse(await this.admin("/listeners?format=json")) as {
      readonly listener_statuses?: readonly {
        readonly name: string;
        readonly local_address: {
          readonly socket_address: { readonly address: string; readonly port_value: number };
        };
      }[];
    };
    const found = listed.listener_statuses?.find(({ name }) => name === listener);
    if (!found) return undefined;
    const { address, port_value } = found.local_address.socket_address;
    // Envoy lists a listener that still waits for its secrets, too; its socket is bound, and refuses.
    const place = { host: address, port: port_value };
    return await isOpen(place) ? place : undefined;
  }

  /** `host:port` of its admin pages. */
  get adminAddress(): string {
    return `${this.#admin?.host}:${this.#admin?.port}`;
  }

  admin(path: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const sent = request({ ...this.#admin, path, agent: false }, (reply) => {
        let body = "";
        reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
        reply.on("end", () => resolve(body));
        reply.on("error", reject);
      });
      sent.setTimeout(20_000, () => sent.destroy(new Error(`Envoy ${path}: no answer in time`)));
      sent.on("error", reject);
      sent.end();
    });
  }

  /** The counters and gauges whose names match, by name. */
  async stats(filter: string): Promise<ReadonlyMap<string, number>> {
    const text = await this.admin(`/stats?filter=${encodeURIComponent(filter)}`);
    const lines = text.split("\n").filter((line) => line.includes(": "));
    return new Map(lines.map((line) => {
      const at = line.lastIndexOf(": ");
      return [line.slice(0, at), Number(line.slice(at + 2))];
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Nothing of it is worth the seconds that draining takes.
    this.#process.kill("SIGKILL");
    await this.#process.exited;
    await rm(this.#directory, { recursive: true, force: true });
  }
}

export async function startEnvoyTls(description: TlsProxyDescription): Promise<Envoy> {
  const directory = await mkdtemp(join(tmpdir(), "postern-envoy-"));
  const config = join(directory, "bootstrap.json");
  await writeFile(config, JSON.stringify(bootstrap(description)));
  const child = new Process(peer("envoy"), [
    ...["-c", config, "--admin-address-path", join(directory, "admin")],
    ...["--concurrency", "1", "--disable-hot-restart", "-l", "info"],
  ], { name: "envoy" });
  const envoy = new Envoy(child, directory);
  try {
    await envoy.waitForAdmin();
    return envoy;
  } catch (error) {
    await envoy[Symbol.asyncDispose]();
    throw error;
  }
}

function bootstrap({ sds, sdsTls, inbound, outbound }: TlsProxyDescription): Json {
  return {
    node: { id: "test-proxy", cluster: "test" },
    admin: { address: socketAddress({ host: "127.0.0.1", port: 0 }) },
    static_resources: {
      listeners: [
        ...(inbound
          ? [listener("tls_in", "plain_target", {
            port: inbound.port ?? 0,
            tls: contextOf("Downstream", inbound.tls),
          })]
          : []),
        ...(outbound ? [listener("tls_out", "tls_target", { port: 0 })] : []),
      ],
      clusters: [
        // First: those after it may need it to become ready.
        ...(sds ? [sdsCluster(sds, sdsTls)] : []),
        ...(inbound ? [cluster("plain_target", socketAddress(inbound.target))] : []),
        ...(outbound
          ? [{
            ...cluster("tls_target", socketAddress(outbound.target)),
            transport_socket: contextOf("Upstream", outbound.tls),
          }]
          : []),
      ],
    },
  };
}

function listener(
  name: string,
  target: string,
  options: { readonly port: number; readonly tls?: Json },
): Json {
  return {
    name,
    address: socketAddress({ host: "127.0.0.1", port: options.port }),
    filter_chains: [{
      filters: [{
        name: "tcp",
        typed_config: {
          "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
          stat_prefix: name,
          cluster: target,
        },
      }],
      ...(options.tls ? { transport_socket: options.tls } : {}),
    }],
  };
}

function contextOf(direction: "Downstream" | "Upstream", tls: Json): Json {
  const type = `envoy.extensions.transport_sockets.tls.v3.${direction}TlsContext`;
  return { name: "tls", typed_config: { "@type": `type.googleapis.com/${type}`, ...tls } };
}

function cluster(name: string, address: Json): Json {
  return {
    name,
    type: "STATIC",
    connect_timeout: "5s",
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address } }] }],
    },
  };
}

/** The SDS server as a static cluster. */
export function sdsCluster(address: string, tls: Json | undefined): Json {
  const path = address.startsWith("unix:") ? address.slice("unix:".length) : undefined;
  const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
  return {
    ...cluster(SDS_CLUSTER, path ? { pipe: { path } } : socketAddress(parsePlace(address))),
    ...(tls ? { transport_socket: contextOf("Upstream", tls) } : {}),
    typed_extension_protocol_options: {
      [options]: {
        "@type": `type.googleapis.com/${options}`,
        explicit_http_config: { http2_protocol_options: {} },
      },
    },
  };
}

/** Whether a program listens there. */
export function isOpen(place: Place): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(place, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", (error) => {
      if ("code" in error && error.code === "ECONNREFUSED") resolve(false);
      else reject(error);
    });
  });
}

function socketAddress({ host, port }: Place): Json {
  return { socket_address: { address: host, port_value: port } };
}

function parsePlace(text: string): Place {
  const at = text.lastIndexOf(":");
  return { host: text.slice(0, at), port: Number(text.slice(at + 1)) };
}

export type { Envoy };
