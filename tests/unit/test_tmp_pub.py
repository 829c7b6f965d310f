from builders import node
from unit.scheduler.machinery import Shell
async def test_x():
    shell = Shell(node("node-a"))
    shell.store_lock(resources={"cpu":"1","memory":"1Gi"})
    shell.step(); await shell.publish()
    print(shell.stored_status()["resources"])
    p=list(shell.api.objects)[0]
    shell.api.objects[p]["spec"]["resources"]={"cpu":"1"}; shell.api.objects[p]["metadata"]["generation"]=2
    shell.api.objects[p]["metadata"]["resourceVersion"]="50"
    shell.see_lock(); shell.publisher.flush()
    import asyncio
    for _ in range(300): await asyncio.sleep(0)
    print(shell.stored_status()["resources"], len(shell.api.asked))
