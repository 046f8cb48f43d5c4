import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { catalogOutOfSight, waitForCatalog } from "../../stories/wait_for_catalog.ts";

waitForCatalog(DevMesh);
catalogOutOfSight(DevMesh);
