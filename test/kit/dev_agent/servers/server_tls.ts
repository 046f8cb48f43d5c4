/**
 * TLS of embedded servers, as operators set real ones up: a CA of its own, not the mesh's, and one
 * certificate for the name that every server of the datacenter has.
 *
 * @module
 */

import type { Engine, ServerTls } from "../../../../src/net/mod.ts";
import { createAuthority } from "../../certs/authority.ts";
import type { Acceptor } from "../../../../src/dev/http/listener.ts";

export interface ServersTls {
  /** PEM of the CA that clients have to trust. */
  readonly caPem: string;
  /** The name that clients have to expect: `server.dc1.consul`. */
  readonly serverName: string;
  readonly certPem: string;
  readonly keyPem: string;
}

const TTL_MS = 365 * 24 * 3_600_000;

export function makeServersTls(datacenter: string, nowMs: number): ServersTls {
  const serverName = `server.${datacenter}.consul`;
  const authority = createAuthority({ trustDomain: "servers.consul", nowMs });
  const { certPem, keyPem } = authority.issueLeaf({
    service: "",
    nowMs,
    ttlMs: TTL_MS,
    overrides: { uris: [], dnsNames: [serverName, "localhost"] },
  });
  return { caPem: authority.rootPem, serverName, certPem, keyPem };
}

/** Accepts TLS connections; `protocols`: by ALPN, the first that the client offers. */
export function securedBy(
  engine: Engine,
  { certPem, keyPem }: ServersTls,
  protocols: readonly string[],
): Acceptor {
  const tls: ServerTls = engine.serverTls({
    certPem,
    keyPem,
    rootPems: [],
    peerCheck: "ignored",
    minVersion: "TLSv1.2",
    maxVersion: "TLSv1.3",
    cipherSuites: [],
    protocols,
  });
  return {
    listen: (options, onConnection) =>
      engine.listenSecure(options, (accepted) =>
        accepted.secure(tls, (outcome) => {
          if (outcome.kind === "failed") return;
          const { connection, peer: { protocol } } = outcome;
          // A client that offered nothing gets this far; Consul ends it here, too.
          if (protocol === "" && !protocols.includes("http/1.1")) connection.close();
          else onConnection(connection, protocol);
        })),
  };
}
