/**
 * TLS towards Consul's servers, of both their ports: files read before each connection, and our own
 * verdict on the certificate that a server shows, its name included.
 *
 * @module
 */

import { isDeepStrictEqual } from "node:util";
import { type Clock, type Log, messageOf, ProxyError } from "../../base/mod.ts";
import { areRoots, type DialCredentials, serverJudge, serverNameMatcher } from "../../http/mod.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { PROXY_FLAGS } from "../flag_names.ts";
import { readTlsFiles, type TransportTls } from "../http/files.ts";
import { explainServerReason, type ServersTls } from "../http/tls_trouble.ts";
import type { ServerAddresses, ServersOptions } from "./types.ts";

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Fails with `config_invalid` where files cannot be used, or no name is given to check. */
export function createServersTls(
  options: Pick<ServersOptions, "places" | "tls" | "datacenter">,
  deps: { readonly clock: Clock; readonly log: Log },
): ServersTls | null {
  const { places, tls, datacenter } = options;
  if (!tls) return null;
  const serverName = tls.serverName || onlyName(places);
  if (serverName === "" && tls.verify) {
    throw new ProxyError(
      "config_invalid",
      "Cannot check the certificates of Consul's servers: there is no name that they are for; give it " +
        `with ${tls.names?.serverName ?? PROXY_FLAGS.serverName}, in most clusters server.${
          datacenter || "<datacenter>"
        }.consul, or ` +
        "give -tls-disabled where the servers have no TLS",
    );
  }
  const { clock, log } = deps;
  const ways = { serverName, named: tls.caFile !== "" || tls.caPath !== "", clock };
  let read = readTlsFiles(tls);
  // Files that were good once stay in use; those of the start have to be good.
  let material = materialOf(read, ways);
  return {
    serverName,
    explain: (reason) => explainServerReason(reason, read),
    material() {
      try {
        const again = readTlsFiles(tls);
        // All that a system trusts takes a twentieth of a second to be read.
        if (isDeepStrictEqual(again, read)) return material;
        material = materialOf(again, ways);
        read = again;
      } catch (error) {
        log.warn("files for TLS to Consul's servers cannot be used, the last ones stay in use", {
          error: messageOf(error),
        });
      }
      return material;
    },
  };
}

function materialOf(
  { caPems: texts, caName, certPem, keyPem, verify, names }: TransportTls,
  { serverName, named, clock }: {
    readonly serverName: string;
    /** Somebody said which CAs are trusted. */
    readonly named: boolean;
    readonly clock: Clock;
  },
): DialCredentials {
  const shown = { certPem, keyPem };
  if (!verify) return { rootPems: [], ...shown, peerCheck: "shown", judge: () => undefined };
  // What the system trusts is one text of hundreds.
  const caPems = texts.flatMap((text) => text.match(CERTIFICATES) ?? []);
  if (caPems.length === 0) {
    throw new ProxyError(
      "config_invalid",
      "Cannot check the certificates of Consul's servers: this system has no CA certificates; give those " +
        `of the servers with ${names.ca}`,
    );
  }
  const cas = named ? caName : `${caName}: give ${names.ca}`;
  const judgeBy = (rules: typeof NO_RULES) =>
    serverJudge({ kind: "ca", rootPems: caPems, rules }, () => clock.now());
  const judgeWhole = judgeBy({ ...NO_RULES, matchers: [serverNameMatcher(serverName)] });
  const judgeChain = judgeBy(NO_RULES);
  const judge: DialCredentials["judge"] = (chain) => {
    const refused = judgeWhole(chain);
    if (refused === undefined || chain.length === 0) return refused;
    // What to change is told by whether any other name would do.
    return judgeChain(chain) === undefined
      ? `${refused}; -tls-server-name says ${serverName}`
      : `${refused}; CAs are taken from ${cas}`;
  };
  return { rootPems: caPems, ...shown, peerCheck: areRoots(caPems) ? "checked" : "shown", judge };
}

/** A name that stands for every server is one that their certificates have, too. */
function onlyName(places: ServerAddresses): string {
  const [name = "", ...others] = places.kind === "names" ? places.names : [];
  const isIp = name.includes(":") || /^[\d.]+$/.test(name);
  return isIp || others.length > 0 ? "" : name;
}
