/** Carries requests to an agent, whose address stays the same. @module */

import type { Address, Clock } from "../../base/mod.ts";
import type { DialEngine } from "../../http/mod.ts";
import type { Carrier } from "./carrier.ts";
import { readTlsFiles, type TlsFiles } from "./files.ts";
import { agentCredentials, type ConsulTls, explainAlert } from "./tls_credentials.ts";
import { Transport } from "./transport.ts";

/** Fails with `config_invalid` where files cannot be used. */
export function createAgentCarrier(
  { address, tls: files }: { readonly address: Address; readonly tls: TlsFiles | null },
  { engine, clock }: { readonly engine: DialEngine; readonly clock: Clock },
): Carrier {
  const tls = files && agentTls(files, { address, clock });
  const transport = new Transport({ peer: "agent", address, tls, engine, clock });
  return {
    peer: "agent",
    where: transport.where,
    send: (request) => transport.send(request),
    dropIdle: () => transport.dropIdle(),
    reloadFiles() {
      tls?.reload();
      transport.renew();
    },
    close: () => transport.close(),
  };
}

function agentTls(
  files: TlsFiles,
  { address, clock }: { readonly address: Address; readonly clock: Clock },
): ConsulTls & { reload(): void } {
  const host = address.kind === "tcp" ? address.host : "localhost";
  const read = () => {
    const texts = readTlsFiles(files);
    return { texts, credentials: agentCredentials(texts, { host, clock }) };
  };
  let current = read();
  return {
    serverName: files.serverName || host,
    material: () => current.credentials,
    explain: (reason) => explainAlert(reason, { peer: "agent", texts: current.texts }),
    reload: () => void (current = read()),
  };
}
