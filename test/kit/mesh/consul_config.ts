/** The configuration file of a test's Consul agent. @module */

import { join } from "node:path";
import type { Consul } from "./consul.ts";

export interface ConsulOptions {
  readonly datacenter?: string;
  /** Default deny, `acl` tokens in force; calls of {@link Consul} use the management token. */
  readonly acl?: boolean;
  /** The ACL default policy, with `acl`; deny if absent. */
  readonly aclDefault?: "allow" | "deny";
  /** Serves HTTPS as well, which demands a certificate of {@link Consul.tls} from every caller. */
  readonly tls?: boolean;
  /** A client agent of this server instead of a server. */
  readonly clientOf?: Consul;
  /** The server ends with the client agent. */
  readonly endsServer?: boolean;
  /** A secondary datacenter of this primary, joined over the WAN. */
  readonly secondaryOf?: Consul;
  readonly defaultIntentionPolicy?: "allow" | "deny";
  /** Any other setting of the agent's configuration file. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export interface ConsulTls {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  readonly address: string;
}

export interface Ports {
  readonly http: number;
  readonly https: number;
  readonly grpc: number;
  readonly server: number;
  readonly serfLan: number;
  readonly serfWan: number;
}

/** The facts of one agent that its configuration needs. */
interface AgentPlace {
  readonly nodeName: string;
  readonly datacenter: string;
  readonly directory: string;
  readonly host: string;
  readonly ports: Ports;
  readonly managementToken: string;
  readonly tls: ConsulTls | undefined;
}

export function agentConfiguration(
  options: ConsulOptions,
  place: AgentPlace,
): Record<string, unknown> {
  const { clientOf, defaultIntentionPolicy, config } = options;
  const { host, ports, datacenter, directory } = place;
  return {
    node_name: place.nodeName,
    datacenter,
    data_dir: join(directory, "data"),
    bind_addr: host,
    client_addr: host,
    log_level: "info",
    disable_update_check: true,
    // Loopback answers at once: the fastest raft timing is safe.
    performance: { raft_multiplier: 1 },
    // Seconds until an agent that does not answer is given up: it may only have got no processor.
    gossip_lan: { suspicion_mult: 20 },
    connect: { enabled: true },
    ports: {
      dns: -1,
      grpc_tls: -1,
      http: ports.http,
      https: place.tls ? ports.https : -1,
      grpc: ports.grpc,
      server: ports.server,
      serf_lan: ports.serfLan,
      serf_wan: clientOf ? -1 : ports.serfWan,
    },
    ...roleOf(options, datacenter),
    ...aclOf(options, place.managementToken),
    ...tlsOf(place),
    ...(defaultIntentionPolicy ? { default_intention_policy: defaultIntentionPolicy } : {}),
    ...config,
  };
}

function roleOf(
  { clientOf, secondaryOf }: ConsulOptions,
  datacenter: string,
): Record<string, unknown> {
  if (clientOf) {
    return {
      server: false,
      retry_join: [clientOf.lanAddress],
      retry_interval: "1s",
      primary_datacenter: clientOf.primaryDatacenter,
    };
  }
  const server = { server: true, bootstrap_expect: 1 };
  if (!secondaryOf) return { ...server, primary_datacenter: datacenter };
  return {
    ...server,
    primary_datacenter: secondaryOf.datacenter,
    retry_join_wan: [secondaryOf.wanAddress],
    retry_interval_wan: "1s",
  };
}

function aclOf(options: ConsulOptions, managementToken: string): Record<string, unknown> {
  if (!managementToken) return {};
  const { clientOf, secondaryOf, aclDefault = "deny" } = options;
  return {
    acl: {
      enabled: true,
      default_policy: aclDefault,
      enable_token_replication: secondaryOf !== undefined,
      tokens: {
        ...(clientOf || secondaryOf ? {} : { initial_management: managementToken }),
        agent: managementToken,
        replication: managementToken,
      },
    },
  };
}

function tlsOf({ tls, directory, datacenter }: AgentPlace): Record<string, unknown> {
  if (!tls) return {};
  const server = join(directory, `${datacenter}-server-consul-0`);
  return {
    tls: {
      https: {
        ca_file: tls.caFile,
        cert_file: `${server}.pem`,
        key_file: `${server}-key.pem`,
        verify_incoming: true,
      },
    },
  };
}
