/**
 * The stories of proxies beside an agent, run with proxies beside servers alone, over TLS and with
 * tokens where the story asks for them.
 *
 * Left out, because an agent is what they are about: `authorize_both`, `flags_alone`, `missing_rights`
 * (a proxy that may not read its own registration ends and names the right that it lacks) and
 * `sidecar_credentials` (which compares with the agent's own leaf).
 *
 * @module
 */

import { SERVERS } from "../kit/mesh/cluster.ts";
import { changedRegistration } from "../stories/changed_registration.ts";
import { intentionFlip } from "../stories/intention_flip.ts";
import { portInUse } from "../stories/port_in_use.ts";
import { resolver } from "../stories/resolver.ts";
import { stateDirectory } from "../stories/state_directory.ts";
import { workers } from "../stories/workers.ts";

intentionFlip(SERVERS);
changedRegistration(SERVERS);
resolver(SERVERS);
workers(SERVERS);
portInUse(SERVERS);
stateDirectory(SERVERS);
