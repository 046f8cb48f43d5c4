/** TLS towards both ports of Consul's servers. Files are read for each connection. @module */

import { isDeepStrictEqual } from "node:util";
import { type Clock, type Log, messageOf, ProxyError } from "../../base/mod.ts";
import type { DialCredentials } from "../../http/mod.ts";
import { PROXY_FLAGS } from "../model/flag_names.ts";
import { readTlsFiles, type TlsTexts } from "../http/files.ts";
import { anchorsOf, type ConsulTls, credentialsOf, explainAlert } from "../http/tls_credentials.ts";
import type { ServerAddresses, ServersOptions } from "./types.ts";

/** Fails with `config_invalid` where files cannot be used, or no name is given to check. */
export function createServersTls(
  options: Pick<ServersOptions, "places" | "tls" | "datacenter">,
  deps: { readonly clock: Clock; readonly log: Log },
): ConsulTls | null {
  const { places, tls, datacenter } = options;
  if (!tls) return null;
  const serverName = tls.serverName || onlyName(places);
  if (serverName === "" && tls.verify) {
    const flag = tls.names?.serverName ?? PROXY_FLAGS.serverName;
    throw new ProxyError(
      "config_invalid",
      "Cannot check the certificates of Consul's servers: there is no name that they are for; give it " +
        `with ${flag}, in most clusters server.${datacenter || "<datacenter>"}.consul, or give ` +
        "-tls-disabled where the servers have no TLS",
    );
  }
  const { clock, log } = deps;
  const terms = { serverName, isNamed: tls.caFile !== "" || tls.caPath !== "", clock };
  let read = readTlsFiles(tls);
  // Files that were good stay in use; those of the start have to be good.
  let material = materialOf(read, terms);
  return {
    serverName,
    explain: (reason) => explainAlert(reason, { peer: "server", texts: read }),
    material() {
      try {
        const again = readTlsFiles(tls);
        // Parsing all CAs of a system takes a twentieth of a second.
        if (isDeepStrictEqual(again, read)) return material;
        material = materialOf(again, terms);
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
  texts: TlsTexts,
  { serverName, isNamed, clock }: {
    readonly serverName: string;
    /** The flags name the trusted CAs. */
    readonly isNamed: boolean;
    readonly clock: Clock;
  },
): DialCredentials {
  const { caName, verify, names } = texts;
  const anchors = anchorsOf(texts);
  if (verify && anchors.length === 0) {
    throw new ProxyError(
      "config_invalid",
      "Cannot check the certificates of Consul's servers: this system has no CA certificates; give those " +
        `of the servers with ${names.ca}`,
    );
  }
  const cas = isNamed ? caName : `${caName}: give ${names.ca}`;
  return credentialsOf(texts, {
    serverName,
    anchors,
    clock,
    refusalWords({ kind, reason }) {
      if (kind === "name") return `${reason}; -tls-server-name says ${serverName}`;
      return `${reason}; CAs are taken from ${cas}`;
    },
  });
}

/** A single DNS name leads to every server, so their certificates have it. */
function onlyName(places: ServerAddresses): string {
  const [name = "", ...others] = places.kind === "names" ? places.names : [];
  const isIp = name.includes(":") || /^[\d.]+$/.test(name);
  return isIp || others.length > 0 ? "" : name;
}
