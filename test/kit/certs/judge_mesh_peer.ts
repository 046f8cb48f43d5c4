/** Judges a peer by the rules of the mesh. @module */
import {
  type Certificate,
  type ChainVerdict,
  createPeerValidator,
  type PeerToJudge,
} from "../../../src/identity/mod.ts";
import { formatPem } from "../../../src/wire/mod.ts";

export interface MeshPeer extends PeerToJudge {
  readonly roots: readonly Certificate[];
  readonly trustDomains: readonly string[];
  readonly strictSpiffeChain: boolean;
}

export function judgeMeshPeer(options: MeshPeer): ChainVerdict {
  const { roots, trustDomains, strictSpiffeChain, ...peer } = options;
  const rootPems = roots.map(({ raw }) => formatPem("CERTIFICATE", raw));
  const validation = { kind: "mesh", rootPems, trustDomains } as const;
  return createPeerValidator(validation, { serviceTrustDomains: [], strictSpiffeChain }).judge(
    peer,
  );
}
