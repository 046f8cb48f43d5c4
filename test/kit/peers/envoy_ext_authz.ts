/**
 * Envoy 1.40 as a client of an authorization service: plain HTTP/1.1 on one side, an application on the
 * other.
 *
 * @module
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { peer } from "../../../scripts/peers.ts";
import type { Place } from "../wire/echo.ts";
import { isOpen } from "./envoy_tls.ts";
import { freePorts, loopbackHost } from "../process/ports.ts";
import { eventually, Process } from "../process/process.ts";

type Json = Readonly<Record<string, unknown>>;
const TYPE = "type.googleapis.com/envoy.extensions";

interface EnvoyAsker extends Place, AsyncDisposable {}

/** `filter`: fields of Envoy's `ExtAuthz` besides the version; its services name the cluster `authz`. */
export async function startEnvoyClient({ filter, app, authz }: {
  readonly filter: Json;
  readonly app: Place;
  readonly authz: Place & { readonly isGrpc: boolean };
}): Promise<EnvoyAsker> {
  const directory = await mkdtemp(join(tmpdir(), "postern-envoy-"));
  const host = loopbackHost();
  const [port = 0] = await freePorts(host, 1);
  const place = { host, port };
  const path = join(directory, "bootstrap.json");
  const hcm = {
    "@type": `${TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: "in",
    normalize_path: true,
    http_filters: [
      {
        name: "envoy.filters.http.ext_authz",
        typed_config: {
          "@type": `${TYPE}.filters.http.ext_authz.v3.ExtAuthz`,
          transport_api_version: "V3",
          ...filter,
        },
      },
      {
        name: "envoy.filters.http.router",
        typed_config: { "@type": `${TYPE}.filters.http.router.v3.Router` },
      },
    ],
    route_config: {
      virtual_hosts: [{
        name: "all",
        domains: ["*"],
        routes: [{ match: { prefix: "/" }, route: { cluster: "app" } }],
      }],
    },
  };
  const filterChain = { filters: [{ name: "hcm", typed_config: hcm }] };
  const config = {
    static_resources: {
      listeners: [{ name: "in", address: address(place), filter_chains: [filterChain] }],
      clusters: [
        cluster("app", app),
        {
          ...cluster("authz", authz),
          ...(authz.isGrpc && { typed_extension_protocol_options: HTTP2 }),
        },
      ],
    },
  };
  await writeFile(path, JSON.stringify(config));
  const child = new Process(peer("envoy"), [
    ...["-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "warning"],
  ], { name: "envoy" });
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await eventually(
      "Envoy listens",
      async () => child.ended !== undefined || await isOpen(place),
      { timeoutMs: 60_000 },
    );
    if (child.ended) throw new Error("it ended");
  } catch (error) {
    const why = `${error instanceof Error ? error.message : error}\n${child.tail()}`;
    await stop();
    throw new Error(why, { cause: error });
  }
  return { ...place, [Symbol.asyncDispose]: stop };
}

const OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const HTTP2 = {
  [OPTIONS]: {
    "@type": `type.googleapis.com/${OPTIONS}`,
    explicit_http_config: { http2_protocol_options: {} },
  },
};

function cluster(name: string, place: Place): Json {
  return {
    name,
    type: "STATIC",
    connect_timeout: "5s",
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: address(place) } }] }],
    },
  };
}

function address({ host, port }: Place): Json {
  return { socket_address: { address: host, port_value: port } };
}
