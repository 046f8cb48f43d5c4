/**
 * The gRPC library, and how a connection of it is secured: the library's own check of chain and name where it can decide, and our
 * verdict on what the server showed before a byte of gRPC is sent. Also where its socket is got hold of.
 *
 * @module
 */

import type * as Grpc from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { canonicalIpText, ProxyError } from "../../base/mod.ts";
import type { GrpcTlsMaterial } from "./grpc_types.ts";

export type GrpcLibrary = Pick<
  typeof Grpc,
  | "Channel"
  | "ChannelCredentials"
  | "connectivityState"
  | "credentials"
  | "logVerbosity"
  | "Metadata"
  | "setLogVerbosity"
>;

let loading: Promise<GrpcLibrary> | undefined;

/** Loaded when the first channel dials: a proxy without such a source neither reads nor runs it. */
export function loadGrpcLibrary(): Promise<GrpcLibrary> {
  return loading ??= import("@grpc/grpc-js").then(({ default: library }) => {
    // Its own lines would go to stderr as they are; what matters reaches us as the status of a call.
    library.setLogVerbosity(library.logVerbosity.NONE);
    return library;
  });
}

type Credentials = InstanceType<GrpcLibrary["ChannelCredentials"]>;

/** What is done to a socket whose owner has given it up. */
export interface Destroyable {
  destroy(): unknown;
}

export interface CredentialsOptions {
  /** `null`: plain text. */
  readonly material: GrpcTlsMaterial | null;
  /** TCP is up. False: nobody wants it any more. */
  readonly onSocket: (socket: Destroyable) => boolean;
}

/** As `getPeerCertificate(true)` gives it. */
interface ShownCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: ShownCertificate;
}

const CHAIN_LIMIT = 16;

export function createCredentials(library: GrpcLibrary, options: CredentialsOptions): Credentials {
  const { material, onSocket } = options;
  const credentials = material
    ? tlsCredentials(library, material)
    : library.credentials.createInsecure();
  const create = credentials._createSecureConnector.bind(credentials);
  // The library keeps its sockets to itself, lets those of silent peers live on when it is closed, and
  // asks nobody about a chain that it does not check: its connector is the one place to do better.
  credentials._createSecureConnector = (...parts) => {
    const connector = create(...parts);
    withoutAddressAsName(connector);
    const connect = connector.connect.bind(connector);
    connector.connect = async (socket) => {
      if (!onSocket(socket)) throw new Error("it was given up");
      const result = await connect(socket);
      const reason = material?.judge && refusal(result, material.judge);
      if (reason === undefined) return result;
      result.socket.destroy();
      throw new Error(reason);
    };
    return connector;
  };
  return credentials;
}

function tlsCredentials(library: GrpcLibrary, material: GrpcTlsMaterial): Credentials {
  const { rootPems, certPem, keyPem, peerCheck, judge } = material;
  if (peerCheck === "checked" ? rootPems.length === 0 : judge === undefined) {
    throw new ProxyError("credentials_invalid", "Cannot check the server: it has no anchors");
  }
  return library.credentials.createSsl(
    rootPems.length === 0 ? null : Buffer.from(rootPems.join("\n")),
    certPem === "" ? null : Buffer.from(keyPem),
    certPem === "" ? null : Buffer.from(certPem),
    { rejectUnauthorized: peerCheck === "checked" },
  );
}

/** The library would ask for an address as for a name, which TLS has no words for and engines refuse. */
function withoutAddressAsName(connector: object): void {
  const { connectionOptions } = connector as {
    readonly connectionOptions?: { servername?: string };
  };
  if (!connectionOptions) return;
  const isAddress = canonicalIpText(connectionOptions.servername ?? "") !== undefined;
  // Not made empty: HTTP/2 on top would build an origin of no host with it.
  if (isAddress) delete connectionOptions.servername;
}

function refusal(
  { socket, secure }: { readonly socket: object; readonly secure: boolean },
  judge: NonNullable<GrpcTlsMaterial["judge"]>,
): string | undefined {
  return secure ? judge(chainOf(socket)) : "the connection is not encrypted";
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
