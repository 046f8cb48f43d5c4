/**
 * TLS of a connection: the library's own check of chain and name where it can decide, and our verdict on
 * what the server showed before a byte of gRPC is sent.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { ProxyError } from "../../base/mod.ts";
import type { GrpcLibrary } from "./library.ts";
import type { GrpcTlsMaterial } from "./types.ts";

type Credentials = InstanceType<GrpcLibrary["ChannelCredentials"]>;
type Connector = ReturnType<Credentials["_createSecureConnector"]>;

/** As `getPeerCertificate(true)` gives it. */
interface ShownCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: ShownCertificate;
}

const CHAIN_LIMIT = 16;

export function channelCredentials(library: GrpcLibrary, material: GrpcTlsMaterial): Credentials {
  const { rootPems, certPem, keyPem, peerCheck, judge } = material;
  if (peerCheck === "checked" ? rootPems.length === 0 : judge === undefined) {
    throw new ProxyError("credentials_invalid", "Cannot check the server: it has no anchors");
  }
  const credentials = library.credentials.createSsl(
    Buffer.from(rootPems.join("\n")),
    certPem === "" ? null : Buffer.from(keyPem),
    certPem === "" ? null : Buffer.from(certPem),
    { rejectUnauthorized: peerCheck === "checked" },
  );
  return judge ? judged(credentials, judge) : credentials;
}

/** The library asks nobody about a chain that it does not check: its connector is the one place to. */
function judged(
  credentials: Credentials,
  judge: NonNullable<GrpcTlsMaterial["judge"]>,
): Credentials {
  const create = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...parts) => {
    const connector = create(...parts);
    const connect = connector.connect.bind(connector);
    const judgedConnect: Connector["connect"] = async (socket) => {
      const result = await connect(socket);
      const reason = result.secure ? judge(chainOf(result.socket)) : "no TLS";
      if (reason === undefined) return result;
      result.socket.destroy();
      throw new Error(reason);
    };
    connector.connect = judgedConnect;
    return connector;
  };
  return credentials;
}

function chainOf(socket: object): Uint8Array[] {
  const { getPeerCertificate } = socket as {
    readonly getPeerCertificate?: (detailed: boolean) => ShownCertificate | null;
  };
  const chain: Uint8Array[] = [];
  const seen = new Set<ShownCertificate>();
  let next = getPeerCertificate?.call(socket, true) ?? undefined;
  while (next?.raw && !seen.has(next) && chain.length < CHAIN_LIMIT) {
    seen.add(next);
    chain.push(new Uint8Array(next.raw));
    next = next.issuerCertificate;
  }
  return chain;
}
