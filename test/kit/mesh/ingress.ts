/**
 * An ingress gateway on a real Consul: `db` behind its sidecar, an SDS server inside the test, and the
 * gateway registered as its operators write it for Envoy.
 *
 * @module
 */

import type { Address } from "../../../src/base/mod.ts";
import { type Consul, startConsul } from "./consul.ts";
import type { Place } from "../wire/echo.ts";
import { type Postern, ready } from "../process/postern.ts";
import { type SdsServer, startSdsServer } from "../secrets/sds_server.ts";

/** A token with these rights runs a gateway. */
const RULES = `service "igw" { policy = "write" }
service_prefix "" { policy = "read" }
node_prefix "" { policy = "read" }`;

export class IngressMesh implements AsyncDisposable {
  readonly consul: Consul;
  readonly sds: SdsServer;
  readonly #own: AsyncDisposableStack;

  private constructor(consul: Consul, sds: SdsServer, own: AsyncDisposableStack) {
    this.consul = consul;
    this.sds = sds;
    this.#own = own;
  }

  /** The default is to deny; `igw` may call `db`. */
  static async start(): Promise<IngressMesh> {
    await using own = new AsyncDisposableStack();
    const sds = own.use(await startSdsServer({ tcp: { port: 0 } }));
    const consul = own.use(await startConsul({ acl: true }));
    const { port } = own.use(await consul.echo());
    await consul.intention("igw", "db", "allow");
    own.use(await consul.serve({ name: "db", port }));
    return new IngressMesh(consul, sds, own.move());
  }

  place(): Promise<Place> {
    return this.consul.place();
  }

  /** Writes the gateway's entry; `entry` is all but its kind and name. */
  async entry(entry: Readonly<Record<string, unknown>>): Promise<void> {
    await this.consul.configEntry({ Kind: "ingress-gateway", Name: "igw", ...entry });
  }

  /** Registers the gateway, with `config` as its proxy configuration. */
  async register(config: Readonly<Record<string, unknown>> = this.envoyConfig()): Promise<void> {
    await this.consul.put("/v1/agent/service/register", {
      Kind: "ingress-gateway",
      ID: "igw-1",
      Name: "igw",
      Address: this.consul.host,
      Port: 8888,
      Proxy: { Config: config },
    });
  }

  /** Runs the gateway; `words` say which. */
  async run(words: readonly string[] = ["proxy", "-proxy-id", "igw-1"]): Promise<Postern> {
    const token = await this.token();
    return await ready(this.consul.run([...words, "-admin-bind", "127.0.0.1:0"], { token }));
  }

  /** The token of a gateway. */
  token(): Promise<string> {
    return this.consul.tokenWithRules(RULES);
  }

  /** One cluster besides the SDS server's, as operators add them for Envoy: objects with commas. */
  envoyConfig(
    more: string = JSON.stringify({ name: "zipkin", type: "ORIGINAL_DST" }),
  ): Readonly<Record<string, string>> {
    const cluster = JSON.stringify(sdsCluster("sds-cluster", this.sds.address));
    return { envoy_extra_static_clusters_json: `${cluster},\n${more}` };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own.disposeAsync();
  }
}

/** Envoy's static cluster of an SDS server without TLS. */
function sdsCluster(name: string, address: Address): Readonly<Record<string, unknown>> {
  const at = address.kind === "tcp"
    ? { socket_address: { address: address.host, port_value: address.port } }
    : { pipe: { path: address.path } };
  return {
    name,
    connect_timeout: "5s",
    http2_protocol_options: {},
    load_assignment: {
      cluster_name: name,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: at } }] }],
    },
  };
}

/** A TCP listener for `db`. */
export function toDb(
  port: number,
  tls?: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return {
    Port: port,
    Protocol: "tcp",
    Services: [{ Name: "db" }],
    ...(tls ? { TLS: tls } : {}),
  };
}
