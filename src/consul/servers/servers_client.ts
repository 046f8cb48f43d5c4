/**
 * The HTTP API of Consul's servers for everybody who asks: the client that an agent is asked with, by way
 * of whichever server is in use.
 *
 * @module
 */

import { type Clock, type Log, messageOf, type Random, type Stats } from "../../base/mod.ts";
import type { ClusterPin } from "../cluster_pin.ts";
import { Client } from "../http/client.ts";
import { ClusterProof } from "../http/cluster_proof.ts";
import type { AgentLink } from "../http/link.ts";
import { ServersCarrier, type ServersCarrierOptions } from "../http/servers_carrier.ts";
import { Transport } from "../http/transport.ts";
import type { DialEngine } from "../../http/mod.ts";
import { judgeCluster } from "../replies/roots.ts";
import { createServersTls } from "./servers_tls.ts";
import type { CallToken, ServersOptions } from "./types.ts";
import { UnfitServer } from "./unfit_server.ts";

export interface ServersClientDeps {
  readonly servers: ServersCarrierOptions["servers"];
  readonly token: CallToken;
  readonly engine: DialEngine;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  /** Is told of moves and of a new token: every watch takes up anew. */
  readonly link: AgentLink;
  readonly cluster: ClusterPin;
  /** Called when a server refuses for load. */
  readonly onRefused?: () => void;
}

/**
 * Connects to nothing yet; fails with `config_invalid` where files for TLS cannot be used. Its `carrier`
 * reads certificates again, and closes.
 */
export function createServersClient(options: ServersOptions, deps: ServersClientDeps): Client {
  const { servers, token, engine, clock, stats, link, cluster, onRefused } = deps;
  const tls = createServersTls(options, deps);
  const carrier = new ServersCarrier({
    servers,
    clock,
    createTransport({ host }) {
      const address = { kind: "tcp", host, port: options.httpPort } as const;
      return new Transport({ peer: "server", address, tls, engine, clock });
    },
  });
  const unfit = new UnfitServer(deps);
  servers.onMove(() => link.moved());
  token.onChange(() => {
    link.moved();
    carrier.endWaits("The token was replaced");
  });
  const proof = new ClusterProof({
    ...{ pin: cluster, link },
    ask: () =>
      judgeCluster(client, {
        judge(trustDomain, who) {
          try {
            cluster.judge(trustDomain, who);
          } catch (error) {
            // Behind one address there may be several servers: another connection may lead to ours.
            carrier.leave(messageOf(error));
            throw error;
          }
        },
      }),
  });
  const client: Client = new Client({
    pathPrefix: "",
    basicAuth: "",
    datacenter: options.datacenter,
    stale: false,
    namespace: options.namespace,
    partition: options.partition,
    names: options.names,
  }, {
    ...{ carrier, token, stats },
    proof,
    onFailure(code) {
      if (code === "agent_overloaded") onRefused?.();
      // What it says can be read by nobody, or is too much.
      else if (code !== "agent_reply_invalid") return;
      if (unfit.failed()) carrier.leave(`its answers are no good (${code})`);
    },
    onSilence(silenceMs) {
      if (unfit.answered(silenceMs)) carrier.leave("it has no leader");
    },
  });
  return client;
}
