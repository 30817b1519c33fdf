"""Words that a text has whatever it is about; those of less than four letters need not be here."""

from __future__ import annotations

from functools import cache

_WORDS = {
    "en": """
        able about above across after again against almost alone along already also although always among another anyone
        anything around away back because become been before behind being below beneath beside between beyond both came
        cannot come could does doing done down during each either else enough even ever every everything example find
        first from gave give given goes going gone have having hence here hers herself himself however into itself just
        keep kept know known last later least less like made make makes making many maybe mean might more most much must
        myself near need needs never next nobody none nothing often once only other others ours ourselves over part per
        perhaps rather really same says second seem seen several shall should shown since some someone something
        sometimes soon still such take taken than that their theirs them themselves then there therefore these they
        thing things this those though three through thus time together told toward under until upon used uses using
        very want well went were what whatever when where whether which while whole whom whose will with within without
        would year years your yours yourself
    """,
    "de": """
        aber alle allem allen aller alles also ander andere anderen anderer anderes anders auch beim bereits bevor
        bin bist bleibt dabei dadurch dafür dagegen daher damit danach dann daran darauf daraus darf darin darum
        darüber dass davon davor dazu dein deine deinen deiner dem denen denn dennoch deren derer deshalb desselben
        dessen dich dies diese diesem diesen dieser dieses doch dort durch dürfen eben ebenso eigentlich eine einem
        einen einer eines einige einigen einiger einmal erst erste ersten etwa etwas euch euer eure fast für ganz ganze
        gegen gehen geht gemacht gerade gern gibt gleich haben hatte hatten hätte hier hinter ihm ihnen ihre ihrem
        ihren ihrer ihres immer indem ins irgend jede jedem jeden jeder jedes jedoch jene jenem jenen jener jetzt kann
        kein keine keinem keinen keiner kommt können könnte lassen machen macht mehr mein meine meinem meinen meiner
        mich mindestens muss musste müssen möglich nach nachdem neben nicht nichts noch nun nur oben oder ohne oft
        schon sehr sein seine seinem seinen seiner seit selbst sich sicher sie sind sobald sogar solche solchen soll
        sollen sollte sondern sonst soweit sowie sowohl statt über überall unser unsere unseren unserer unten unter viel
        viele vielen vielleicht vom von vor während wann warum was weder weil weiter welche welchem welchen welcher
        welches wenig wenige wenn werde werden wieder will wird wirst woher wohin wohl wollen worden wurde wurden
        würde würden zeigt zudem zum zur zurück zusammen zwar zwischen
    """,
    "fr": """
        afin ainsi alors après assez aucun aucune aujourd'hui auquel aussi autre autres aux avait avant avec avoir avons
        beaucoup bien cela celle celles celui cependant certain certaine certains ces cette ceux chaque chez comme
        comment contre dans depuis des deux devant doit donc dont elle elles encore enfin entre est était étaient être
        eux faire fait fois font furent hors jamais jusque laquelle leur leurs lorsque lui mais malgré mieux mes moi
        moins même mêmes nos notre nous ont par parce parfois parmi pas pendant peu peut plus plusieurs pour pourquoi
        pouvoir presque puis quand que quel quelle quelles quels quelque quelques qui quoi rien sans sauf selon ses
        seulement sera serait seront ses soit sont sous souvent sur tandis tant tel telle telles tels toujours tous
        tout toute toutes très trop une vers voici voilà vos votre vous était
    """,
    "es": """
        además adonde ahora algo alguien algún alguna algunas alguno algunos ambos ante antes aquel aquella aquellas
        aquello aquellos aquí así aunque bajo bastante bien cada casi como cómo contra cual cuales cualquier cuando
        cuanto debe deben decir dentro desde después donde dónde durante ella ellas ello ellos embargo entonces entre
        eran eras eres esa esas ese eso esos esta está están estar estas este esto estos fue fueron fuera gran hace
        hacen hacer hacia hasta hubo incluso junto luego mediante menos mientras misma mismas mismo mismos mucho muchas
        muchos nada nadie ninguna ninguno nosotros nuestra nuestras nuestro nuestros nunca otra otras otro otros para
        pero poca pocas poco pocos poder porque primero pueda puede pueden pues quien quienes sea sean según será serán
        sido siempre siendo sino sobre solamente sólo también tampoco tanto tener tenía tiene tienen toda todas todavía
        todo todos tras unas unos usted varias varios veces vosotros
    """,
    "it": """
        abbiamo alcune alcuni alla alle allo allora altre altri altro ancora anche avere aveva avevano bene certo che
        chi come con contro cosa così cui dagli dalla dalle dallo degli dei della delle dello dentro dopo dove dovrebbe
        ecco ella era erano essa esse essere essi fare fino fra fuori già gli hanno infatti inoltre insieme invece
        loro mai mentre mio molta molte molti molto nella nelle nello nessun nessuna niente nostra nostre nostri nostro
        ogni oltre oppure per perché però poco poi possono prima propria proprie proprio può quale quali qualche quando
        quanto quasi quella quelle quelli quello questa queste questi questo quindi sarà sarebbe sempre senza
        siamo siano sia sono soltanto sopra sotto stata state stati stato stesso sugli sulla sulle suoi sua tanto
        tra troppo tutta tutte tutti tutto una uno vari verso volta vostro
    """,
    "pt": """
        abaixo acima agora ainda alguém algum alguma algumas alguns além ambos antes apenas após aquela aquelas aquele
        aqueles aqui aquilo assim até bastante cada como contra contudo depois desde dessa desse desta deste disso
        disto dois duas durante elas eles embora enquanto entre eram essa essas esse esses esta está estão estar estas
        estava este estes fazer foram havia isso isto já mais mas mediante meio menos mesma mesmas mesmo mesmos muita
        muitas muito muitos nada nem nenhum nenhuma nessa nesse nesta neste nossa nossas nosso nossos nunca onde outra
        outras outro outros para pela pelas pelo pelos perante pode podem pois porque portanto possível pouca poucas
        pouco poucos própria próprio quais qual qualquer quando quanto quase quem seja sejam sempre sendo sera será
        serão seus sido sobre sob somente sua suas também tampouco tanta tanto tem têm tenha ter tinha toda todas
        todavia todo todos tudo uma umas vários você vocês
    """,
    "nl": """
        aan achter alle alleen alles als altijd ander andere anders beide bent bij binnen boven buiten daar daarna
        daarom dan dat de deze die dit doch doen door draait echter een eens eerst elke elkaar enige enkele ergens
        gaan geen gehad geworden goed haar had hadden hebben heeft heel hem hier hoe hoewel hun iedere iedereen iemand
        iets ik ja jouw jullie kan konden kunnen langs later maar maken meer meest men met mij mijn misschien moest
        moet moeten mogen naar naast niemand niet niets nog nooit ofschoon omdat onder ons onze ooit over overal reeds
        rond samen sinds slechts sommige steeds tegen terwijl toch toen tot tussen uit uw vaak van vanaf vanuit veel
        verder vooral voor voordat waar waarom want waren was wat weer wegens welke werd werden wie willen word worden
        wordt zal zelf zelfs zich zij zijn zoals zodat zonder zou zouden zulke
    """,
}


@cache
def stopwords(language: str | None) -> frozenset[str]:
    """Of a language and of English, which turns up everywhere; of all, where it is not known."""
    known = (language or "").partition("-")[0]
    chosen = {known, "en"} if known in _WORDS else _WORDS.keys()
    return frozenset(word for each in chosen for word in _WORDS[each].split())
