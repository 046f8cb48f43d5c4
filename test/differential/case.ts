/** The form in which questions to two proxies are written down. @module */

import { PLAN } from "../kit/wire/response_plans.ts";
import type { WrittenRequest } from "../kit/wire/send_request.ts";
import type { MeshWorld } from "../kit/mesh/mixed_mesh.ts";

/** How the caller asks. */
export type Wire = "1.1" | "2";

export interface Case {
  readonly name: string;
  /** The upstream; one of an area's own, or of `MixedMesh`. */
  readonly to: string;
  /** `1.1` if absent. */
  readonly wire?: Wire;
  readonly ask?: Partial<WrittenRequest>;
  /**
   * The answer between two Envoys, in the form of `gistOf`: a status, the gRPC status, the instance that
   * answered, the number of tries that the applications saw where it is not one.
   */
  readonly want: string;
  /** It takes as long: `, waited` in {@link want}. */
  readonly waitsMs?: number;
  /** Asked so often; the answers that come at all are compared, and their shares. */
  readonly times?: number;
  /** How often each answer comes, of 1, for {@link times}. */
  readonly shares?: Readonly<Record<string, number>>;
  /** The outcome of one depends on the others that are asked at the same time. */
  readonly isCrowded?: true;
  /** The same one for all of {@link times}, whichever: `one`. */
  readonly isSticky?: true;
}

export interface Area extends Pick<MeshWorld, "entries">, Partial<Pick<MeshWorld, "shared">> {
  readonly name: string;
  readonly cases: readonly Case[];
  /** Mixed pairs run all cases; a sample if absent. */
  readonly isMixed?: true;
  /** One case after the other: they fill the limits of a proxy. */
  readonly isOneByOne?: true;
}

/** A request by its path and fields, as tables have it. */
export function get(path: string, ...fields: readonly string[]): Partial<WrittenRequest> {
  return { path, fields };
}

/** One whose tries are answered so: see {@link PLAN}. */
export function planned(plan: string, more: Partial<WrittenRequest> = {}): Partial<WrittenRequest> {
  return { ...more, fields: [...more.fields ?? [], `${PLAN}: ${plan}`] };
}
