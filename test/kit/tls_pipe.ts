/**
 * For clients that show no certificate: whoever connects here in clear is carried on with TLS, as the
 * certificate says who it is.
 *
 * @module
 */

import { connect, type TLSSocket } from "node:tls";
import type { Place, TestServer } from "./echo.ts";
import { startServer } from "./echo.ts";

export interface TlsPipeOptions {
  readonly certPem: string;
  readonly keyPem: string;
  /** By ALPN. */
  readonly protocols: readonly string[];
}

/** Whom it leads to is not looked at: that is not what a story with it is about. */
export function startTlsPipe(to: Place, options: TlsPipeOptions): Promise<TestServer> {
  const { certPem: cert, keyPem: key, protocols } = options;
  return startServer((socket) => {
    const upstream: TLSSocket = connect({
      ...{ host: to.host, port: to.port, cert, key },
      ...{ ALPNProtocols: [...protocols], rejectUnauthorized: false },
    });
    const pairs = [[socket, upstream], [upstream, socket]] as const;
    for (const [from, into] of pairs) {
      from.pipe(into);
      from.on("error", () => into.destroy());
      from.on("close", () => into.destroy());
    }
  });
}
