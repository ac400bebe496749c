def faults_of_names(*a): return []
def faults_of_mistakes(*a): return []
