/**
 * TLS towards Consul's servers, of both their ports: files read before each connection, and our own
 * verdict on the certificate that a server shows, its name included.
 *
 * @module
 */

import { type Clock, type Log, messageOf, ProxyError } from "../../base/mod.ts";
import {
  areRoots,
  type GrpcTls,
  type GrpcTlsMaterial,
  serverJudge,
  serverNameMatcher,
} from "../../grpc/mod.ts";
import { NO_RULES } from "../../identity/mod.ts";
import { readTlsFiles, type TlsFiles } from "../http/files.ts";
import type { ServerPlaces, ServersOptions } from "./types.ts";

/** Fails with `config_invalid` where files cannot be used, or no name is given to check. */
export function createServersTls(
  options: Pick<ServersOptions, "places" | "tls" | "datacenter">,
  deps: { readonly clock: Clock; readonly log: Log },
): GrpcTls | null {
  const { places, tls, datacenter } = options;
  if (!tls) return null;
  const serverName = tls.serverName || onlyName(places);
  if (serverName === "" && tls.verify) {
    throw new ProxyError(
      "config_invalid",
      "Cannot check the certificates of Consul's servers: there is no name that they are for; give it " +
        `with -tls-server-name, in most clusters server.${datacenter || "<datacenter>"}.consul`,
    );
  }
  const { clock, log } = deps;
  let material = readMaterial(tls, { serverName, clock });
  return {
    serverName,
    material() {
      try {
        material = readMaterial(tls, { serverName, clock });
      } catch (error) {
        log.warn("files for TLS to Consul's servers cannot be used, the last ones stay in use", {
          error: messageOf(error),
        });
      }
      return material;
    },
  };
}

function readMaterial(
  files: TlsFiles,
  { serverName, clock }: { readonly serverName: string; readonly clock: Clock },
): GrpcTlsMaterial {
  const { caPems, certPem, keyPem, verify } = readTlsFiles(files);
  const shown = { certPem, keyPem };
  if (!verify) return { rootPems: [], ...shown, peerCheck: "shown", judge: () => undefined };
  const rules = { ...NO_RULES, matchers: [serverNameMatcher(serverName)] };
  const judge = serverJudge({ kind: "ca", rootPems: caPems, rules }, () => clock.now());
  return { rootPems: caPems, ...shown, peerCheck: areRoots(caPems) ? "checked" : "shown", judge };
}

/** A name that stands for every server is one that their certificates have, too. */
function onlyName(places: ServerPlaces): string {
  const [name = "", ...others] = places.kind === "names" ? places.names : [];
  const isIp = name.includes(":") || /^[\d.]+$/.test(name);
  return isIp || others.length > 0 ? "" : name;
}
