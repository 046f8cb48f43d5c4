import { SERVERS } from "../kit/mesh/cluster.ts";
import { CONSUL } from "../kit/mesh/consul.ts";
import { catalogOutOfSight, waitForCatalog } from "../stories/wait_for_catalog.ts";

for (const agents of [CONSUL, SERVERS]) waitForCatalog(agents);
catalogOutOfSight(CONSUL);
