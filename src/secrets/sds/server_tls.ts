/**
 * TLS towards an SDS server, from files or inline: read before each connection, so that the next one
 * uses what was rotated meanwhile.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { GrpcTls, GrpcTlsMaterial } from "../grpc/mod.ts";
import type { SdsServer } from "../plan.ts";
import type { Secret } from "../secret.ts";
import type { SecretSpec } from "../spec.ts";

export function serverTls(
  { tls, name }: SdsServer,
  load: (spec: SecretSpec) => Promise<Secret>,
): GrpcTls | null {
  if (!tls) return null;
  const { serverName, validation, certificate } = tls;
  return {
    serverName,
    async material(): Promise<GrpcTlsMaterial> {
      const [trust, own] = await Promise.all([
        load(validation),
        certificate ? load(certificate) : undefined,
      ]);
      if (trust.type !== "validation" || trust.validation.kind !== "ca") {
        throw new ProxyError(
          "credentials_invalid",
          `Cannot check the SDS server "${name}": its validation must give anchors`,
        );
      }
      const shown = own?.type === "certificate" ? own : { certPem: "", keyPem: "" };
      return {
        rootPems: trust.validation.rootPems,
        certPem: shown.certPem,
        keyPem: shown.keyPem,
        peerCheck: "checked",
      };
    },
  };
}
