/** The HTTP stories of proxies beside an agent, run with proxies beside servers alone. */

import { SERVERS } from "../kit/mesh/cluster.ts";
import { accessLog } from "../stories/access_log.ts";
import { chaos } from "../stories/chaos.ts";
import { demandedTokens } from "../stories/demanded_tokens.ts";
import { envoyExtensions } from "../stories/envoy_extensions.ts";
import { explained } from "../stories/explain.ts";
import { extAuthz } from "../stories/ext_authz.ts";
import { hashedRequests } from "../stories/hashed_requests.ts";
import { permissionFlip } from "../stories/permission_flip.ts";
import { protocol } from "../stories/protocol.ts";
import { routes } from "../stories/routes.ts";

protocol(SERVERS);
routes(SERVERS);
hashedRequests(SERVERS);
permissionFlip(SERVERS);
demandedTokens(SERVERS);
accessLog(SERVERS);
explained(SERVERS);
extAuthz(SERVERS);
envoyExtensions(SERVERS);
chaos(SERVERS, { protocol: "http", seconds: 12, flipEveryMs: 1_000 });
